"""ID tokens: what is in them, and the halves of hashes that bind them (Core sections 2 and 3)."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import pytest

from valetkey.authorization.model.client import Client, OpenIdRegistration, client_without_rights
from valetkey.authorization.model.user import StandardClaims, Uid, User
from valetkey.authorization.protocol.claims import ClaimsRequest
from valetkey.authorization.tokens.client_keys import ClientSigner
from valetkey.authorization.tokens.id_token import IdTokens, SignInRecord, Subjects, half_hash
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.replace import replace
from valetkey.kernel.replace import replace as changed
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import FingerprintKey

NOW = Instant(1_800_000_000)
ISSUER = "https://auth.example"
USER = User(
    Uid(1001),
    "ada",
    "ada@example.com",
    None,
    "Ada",
    NOW,
    NOW,
    None,
    StandardClaims(nickname="Countess"),
)
CLIENT = client_without_rights("app", NOW)
KEY = FingerprintKey(bytes(32))


@dataclass
class Seen:
    """Signs nothing and remembers what it was to sign."""

    claims: Mapping[str, object] = field(default_factory=dict[str, object])
    algorithm: str | None = ""
    encryption: tuple[str, str] = ("", "")

    async def sign(
        self,
        claims: Mapping[str, object],
        client: Client,
        now: Instant,
        *,
        typ: str = "JWT",
        algorithm: str | None,
        encryption_alg: str = "",
        encryption_enc: str = "",
    ) -> str:
        """The name of its type."""
        self.claims, self.algorithm = claims, algorithm
        self.encryption = (encryption_alg, encryption_enc)
        return typ


def _mint(identity: SignInRecord, **sent: str) -> Seen:
    seen = Seen()
    made = IdTokens(ISSUER, cast("ClientSigner", seen), Subjects(KEY), hours(1)).mint(
        identity, NOW, **sent
    )
    assert asyncio.run(made) == "JWT"
    return seen


WHOLE = SignInRecord(USER, CLIENT, Instant(NOW - 60), ("pwd",), "se_1", "n-0S6_WzA2Mj")


def test_id_token_has_every_claim_of_core_section_2() -> None:
    assert _mint(WHOLE).claims == {
        "iss": ISSUER,
        "sub": "1001",
        "aud": "app",
        "iat": NOW,
        "exp": NOW + 3_600,
        "auth_time": NOW - 60,
        "acr": "urn:valetkey:acr:password",
        "amr": ["pwd"],
        "sid": "se_1",
        "nonce": "n-0S6_WzA2Mj",
    }


def test_id_token_omits_unknown_session_nonce_and_methods() -> None:
    claims = _mint(SignInRecord(USER, CLIENT, NOW)).claims
    assert not {"sid", "nonce", "amr", "at_hash", "c_hash", "s_hash"} & set(claims)
    assert claims["acr"] == "0"


def test_hash_claim_is_present_only_if_its_value_is_returned() -> None:
    sent = {"access_token": "a", "code": "b", "state": "c"}
    names = {"access_token": "at_hash", "code": "c_hash", "state": "s_hash"}
    for parameter, text in sent.items():
        claims = _mint(WHOLE, **{parameter: text}).claims
        assert claims[names[parameter]] == half_hash(text, "ES256")
        assert not (set(names.values()) - {names[parameter]}) & set(claims)


# The examples of Core appendices A.3 and A.4.
@pytest.mark.parametrize(
    ("text", "half"),
    [
        ("jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y", "77QmUPtjPfzWtF2AnpK9RQ"),
        (
            "Qcb0Orv1zh30vL1MPRsbm-diHiMwcLyZvn1arpZv-Jxf_11jnpEX3Tgfvk",
            "LDktKdoQak3Pk0cnXxCltA",
        ),
    ],
)
def test_hashes_match_the_examples_of_the_specification(text: str, half: str) -> None:
    assert half_hash(text, "RS256") == half


def test_hash_for_ed25519_is_half_of_sha512() -> None:
    assert len(half_hash("x", "EdDSA")) == 43
    assert len(half_hash("x", "HS256")) == 22


def test_scope_claims_are_in_the_id_token_only_when_enabled() -> None:
    scoped = changed(WHOLE, scope=Scope.of("openid", "profile", "email"))
    assert not {"name", "nickname", "email"} & set(_mint(scoped).claims)
    alone = _mint(changed(scoped, with_scope_claims=True)).claims
    assert (alone["nickname"], alone["email"], alone["email_verified"]) == (
        *("Countess", "ada@example.com"),
        False,
    )


def test_id_token_has_claims_requested_for_it_and_not_those_for_userinfo() -> None:
    request = ClaimsRequest.parse('{"id_token":{"nickname":null},"userinfo":{"email":null}}')
    claims = _mint(changed(WHOLE, claims=request)).claims
    assert claims["nickname"] == "Countess"
    assert "email" not in claims


def test_claims_request_cannot_replace_the_id_tokens_own_claims() -> None:
    request = ClaimsRequest.parse('{"id_token":{"sub":{"value":"7"},"auth_time":null,"acr":null}}')
    assert _mint(changed(WHOLE, claims=request)).claims == _mint(WHOLE).claims


def test_id_token_is_signed_and_encrypted_as_the_client_registered() -> None:
    registered = OpenIdRegistration(
        id_token_signed_response_alg="PS256",
        id_token_encrypted_response_alg="ECDH-ES",
        id_token_encrypted_response_enc="A256GCM",
    )
    seen = _mint(changed(WHOLE, client=replace(CLIENT, openid=registered)))
    assert (seen.algorithm, seen.encryption) == ("PS256", ("ECDH-ES", "A256GCM"))
