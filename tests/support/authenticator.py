"""A software authenticator: makes passkeys and shows them, rightly or in any way that is wrong."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from struct import pack

from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.hashes import SHA256
from fido2 import cbor

from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import from_base64url, to_base64url

PRESENT, VERIFIED, ELIGIBLE, ATTESTED = 0x01, 0x04, 0x08, 0x40


@dataclass
class SoftKey:
    """One key pair, as a device keeps it."""

    handle: bytes
    key: EllipticCurvePrivateKey
    user: bytes
    domain: str
    counter: int = 0


@dataclass
class SoftAuthenticator:
    """A device of somebody's. `flags` says what it tells of its person, `origin` of the page."""

    origin: str = "https://auth.example"
    flags: int = PRESENT | VERIFIED
    counts: bool = False
    keys: list[SoftKey] = field(default_factory=list[SoftKey])

    def create(self, options: str) -> str:
        """What the browser answers to `navigator.credentials.create`."""
        request = json.loads(options)
        key = SoftKey(
            SYSTEM.random(32),
            generate_private_key(SECP256R1()),
            from_base64url(request["user"]["id"]) or b"",
            request["rp"]["id"],
        )
        self.keys.append(key)
        numbers = key.key.public_key().public_numbers()
        cose = {
            1: 2,
            3: -7,
            -1: 1,
            -2: numbers.x.to_bytes(32, "big"),
            -3: numbers.y.to_bytes(32, "big"),
        }
        attested = bytes(16) + pack(">H", len(key.handle)) + key.handle + cbor.encode(cose)
        data = self._data(key, self.flags | ATTESTED) + attested
        statement = {"fmt": "none", "attStmt": {}, "authData": data}
        return self._answer(
            key,
            {
                "clientDataJSON": self._client("webauthn.create", request["challenge"], {}),
                "attestationObject": to_base64url(cbor.encode(statement)),
            },
        )

    def get(self, options: str, which: int = 0, changed: Mapping[str, object] | None = None) -> str:
        """What it answers to `navigator.credentials.get`, with one of its keys."""
        request, key = json.loads(options), self.keys[which]
        if self.counts:
            key.counter += 1
        data = self._data(key, self.flags)
        client = self._client("webauthn.get", request["challenge"], changed or {})
        signed = data + sha256(from_base64url(client) or b"").digest()
        return self._answer(
            key,
            {
                "clientDataJSON": client,
                "authenticatorData": to_base64url(data),
                "signature": to_base64url(key.key.sign(signed, ECDSA(SHA256()))),
                "userHandle": to_base64url(key.user),
            },
        )

    def _data(self, key: SoftKey, flags: int) -> bytes:
        return sha256(key.domain.encode()).digest() + pack(">BI", flags, key.counter)

    def _client(self, kind: str, challenge: str, changed: Mapping[str, object]) -> str:
        client_data = {
            "type": kind,
            "challenge": challenge,
            "origin": self.origin,
            "crossOrigin": False,
        }
        return to_base64url(json.dumps({**client_data, **changed}).encode())

    def _answer(self, key: SoftKey, response: dict[str, str]) -> str:
        return json.dumps(
            {"type": "public-key", "rawId": to_base64url(key.handle), "response": response}
        )
