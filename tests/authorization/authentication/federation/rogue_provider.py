"""What a provider of the tests signs and announces."""

import hashlib
import json
import re
from collections.abc import Mapping
from ipaddress import ip_network

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from joserfc import jwt as jose
from joserfc.jwk import ECKey, OctKey

from tests.support.pages import Page, Pages
from valetkey.authorization.providers.rules.identities import ProviderConnection, UpstreamState
from valetkey.authorization.providers.settings import ProviderKind, ProviderSettings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import Secret, to_base64url

CODE = {"code": "abc"}

CALLBACK = "http://127.0.0.1:9/oauth/sign-in/with/other/callback"

JOURNEY = UpstreamState("state", "the-nonce-of-this-trip", "v" * 43, CALLBACK)

NOW = SYSTEM.now()


def line(
    issuer: str, client_id: str = "us", secret: str = "s" * 40, keep: tuple[str, ...] = ()
) -> ProviderConnection:
    """To a provider on loopback."""
    settings = ProviderSettings(
        "other", "Other", ProviderKind.OPENID, issuer, client_id, keep_claims=keep
    )
    door = OutboundHttp([ip_network("127.0.0.0/8")], SYSTEM.now)
    return ProviderConnection(settings, Secret(secret), door, SYSTEM.now)


KEY = ECKey.generate_key("P-256", {"kid": "one", "alg": "ES256", "use": "sig"})


def claims(server: Pages, **more: object) -> dict[str, object]:
    """What a good ID token says, changed by `more`; None leaves one out."""
    payload: dict[str, object] = {
        "iss": server.url,
        "sub": "248289761001",
        "aud": "us",
        "exp": NOW + 300,
        "iat": NOW,
        "nonce": JOURNEY.nonce,
        "email": "ada@example.com",
        "email_verified": True,
    }
    return {name: value for name, value in {**payload, **more}.items() if value is not None}


def signed(payload: Mapping[str, object], key: ECKey | OctKey = KEY, alg: str = "ES256") -> str:
    """As that provider would."""
    return jose.encode({"alg": alg, "kid": "one"}, dict(payload), key, algorithms=[alg])


def raw(payload: Mapping[str, object], header: Mapping[str, object], key: ECKey = KEY) -> str:
    """Signed with ES256, whatever the header says; None leaves a parameter out."""
    members = {"alg": "ES256", "kid": "one", **header}
    kept = {name: value for name, value in members.items() if value is not None}
    parts = (to_base64url(json.dumps(part).encode()) for part in (kept, payload))
    text = ".".join(parts).encode()
    private = key.private_key
    assert private is not None
    der = private.sign(text, ec.ECDSA(hashes.SHA256()))
    signature = b"".join(n.to_bytes(32) for n in utils.decode_dss_signature(der))
    return f"{text.decode()}.{to_base64url(signature)}"


def at_hash(alg: str, token: str) -> str:
    """The hash that belongs into an ID token of this algorithm (Core section 3.1.3.6)."""
    digest = hashlib.new(f"sha{alg[2:]}" if alg[:2] != "Ed" else "sha512", token.encode()).digest()
    return to_base64url(digest[: len(digest) // 2])


def announce(server: Pages, **more: object) -> None:
    """Add to what the provider announces."""
    document = json.loads(server.at["/.well-known/openid-configuration"].body)
    server.at["/.well-known/openid-configuration"] = Page(json.dumps({**document, **more}).encode())


def named(value: object) -> str:
    """Return the name of a case: the same in workers that start in different seconds."""
    return re.sub(r"\d{10}(?:\.\d+)?", "time", str(value))[:60]
