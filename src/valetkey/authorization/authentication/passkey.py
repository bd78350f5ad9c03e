"""Passkeys: a key pair in a user's device, instead of a password or after one (WebAuthn 3).

A device's response is untrusted input: it is bounded and parsed strictly before the library sees
it. Each challenge is encrypted by this server for one browser and one purpose, and is valid once.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from ipaddress import ip_address
from typing import TYPE_CHECKING, cast
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from msgspec import Struct

from valetkey.authorization.model.grant import Voucher, VoucherKind
from valetkey.authorization.model.user import Passkey, User
from valetkey.authorization.protocol.claims import Amr
from valetkey.kernel.keyring import Sealer, Ticket, open_ticket, seal_ticket
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.runtime import import_lazily
from valetkey.kernel.secret import FingerprintKey, from_base64url, same, to_base64url
from valetkey.kernel.strict_json import read_object
from valetkey.kernel.url import origin

if TYPE_CHECKING:
    import fido2.server as fido2_server
    from fido2 import webauthn
else:
    fido2_server = import_lazily("fido2.server")
    webauthn = import_lazily("fido2.webauthn")

LIFETIME = minutes(10)
"""How long a challenge is valid."""

LONGEST = 8_192
"""Maximum number of characters in a browser's response, as JSON."""

MOST = 20
"""Maximum number of passkeys of one account."""

_LONGEST_PART = 6_000
_LONGEST_HANDLE = 1_023  # WebAuthn section 6.5.1
_ALGORITHMS = (-7, -8, -257)  # ES256, EdDSA, RS256
_ALGORITHM = 3  # the label of `alg` in a COSE key
_ANY_USER = 0
# Exceptions that the library and its dependencies raise for invalid bytes.
_BROKEN = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    InvalidSignature,
    LookupError,
    NotImplementedError,
    RecursionError,
    struct.error,
    TypeError,
    UnsupportedAlgorithm,
    ValueError,
)


class PasskeyResponse(Struct, frozen=True):
    """A browser's response: bounded and parsed strictly, but not verified yet."""

    handle: str
    response: Mapping[str, str]
    challenge: str

    def as_json(self) -> dict[str, object]:
        """Return the form that the library reads (WebAuthn section 5.1.8)."""
        return {
            "id": self.handle,
            "rawId": self.handle,
            "type": "public-key",
            "response": dict(self.response),
            "clientExtensionResults": {},
        }


class NewPasskey(Struct, frozen=True):
    """A new key pair of a device, with proof of possession."""

    handle: str
    public: bytes
    synced: bool
    counter: int
    once: Voucher


class VerifiedAssertion(Struct, frozen=True):
    """A verified assertion: its method, its counter, and the challenge to redeem once."""

    methods: tuple[str, ...]
    counter: int
    fell: bool
    once: Voucher


class Passkeys(Struct, frozen=True):
    """Create challenges for devices and verify their responses; stores nothing."""

    issuer: str
    name: str
    sealer: Sealer
    key: FingerprintKey
    random: Callable[[int], bytes]

    @property
    def domain(self) -> str:
        """Return the relying party id: the host of the issuer; "" where browsers allow none."""
        host = urlsplit(self.issuer).hostname or ""
        try:
            ip_address(host)
        except ValueError:
            return host
        return ""

    def ask_to_register(
        self, user: User, present: Sequence[Passkey], browser: str, now: Instant
    ) -> str:
        """Return the options to create a passkey, as JSON; at most one for each device."""
        options, _ = self._server().register_begin(  # pyright: ignore[reportUnknownMemberType]
            webauthn.PublicKeyCredentialUserEntity(
                id=self._user_handle(user.uid),
                name=user.username,
                display_name=user.name or user.username,
            ),
            credentials=_descriptors(present),
            resident_key_requirement=webauthn.ResidentKeyRequirement.REQUIRED,
            user_verification=webauthn.UserVerificationRequirement.REQUIRED,
            challenge=self._challenge("register", user.uid, browser, now),
        )
        return json.dumps(dict(options.public_key))

    def registered(self, text: str, user: User, browser: str, now: Instant) -> NewPasskey | None:
        """Return the passkey in a response to `ask_to_register`; None unless all of it is valid."""
        answer = read_answer(text, ("attestationObject", "clientDataJSON"))
        once = None if answer is None else self._once(answer, "register", user.uid, browser, now)
        if answer is None or once is None:
            return None
        try:
            complete = self._server().register_complete  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            data = complete(_state(answer), answer.as_json())
            made = data.credential_data
            if made is None or to_base64url(made.credential_id) != answer.handle:
                return None
            if not _is_sound(made):
                return None
        except _BROKEN:
            return None
        synced = bool(data.flags & webauthn.AuthenticatorData.FLAG.BE)
        return NewPasskey(answer.handle, bytes(made), synced, data.counter, once)

    def authentication_options(
        self,
        purpose: str,
        browser: str,
        now: Instant,
        *,
        uid: int = _ANY_USER,
        of: Sequence[Passkey] = (),
    ) -> str:
        """Return the options for authenticating with a passkey, as JSON.

        Without `of`, any passkey on the device may be used. `uid` is the expected user.
        """
        options, _ = self._server().authenticate_begin(  # pyright: ignore[reportUnknownMemberType]
            credentials=_descriptors(of) or None,
            user_verification=webauthn.UserVerificationRequirement.REQUIRED,
            challenge=self._challenge(purpose, uid, browser, now),
        )
        return json.dumps(dict(options.public_key))

    def verify_response(
        self,
        answer: PasskeyResponse,
        passkey: Passkey,
        purpose: str,
        browser: str,
        now: Instant,
        *,
        uid: int = _ANY_USER,
    ) -> VerifiedAssertion | None:
        """Verify a response to `authentication_options` for this passkey; None if it is invalid."""
        once = self._once(answer, purpose, uid, browser, now)
        handle = answer.response.get("userHandle", "")
        expected = to_base64url(self._user_handle(passkey.uid))
        if once is None or (handle and not same(handle, expected)):
            return None
        try:
            credential = webauthn.AttestedCredentialData(passkey.public)
            complete = self._server().authenticate_complete  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            complete(_state(answer), [credential], answer.as_json())
            data = webauthn.AuthenticatorData(_decoded(answer.response["authenticatorData"]))
        except _BROKEN:
            return None
        kept_there = not data.flags & webauthn.AuthenticatorData.FLAG.BE
        key = Amr.HARDWARE_KEY if kept_there else Amr.SOFTWARE_KEY
        # Zero from a device without a counter; otherwise each use increases it.
        fell = bool(passkey.counter or data.counter) and data.counter <= passkey.counter
        methods = (key.value, Amr.USER_VERIFIED.value, Amr.SEVERAL.value)
        return VerifiedAssertion(methods, data.counter, fell, once)

    def _server(self) -> "fido2_server.Fido2Server":
        own = origin(self.issuer)
        server = fido2_server.Fido2Server(
            webauthn.PublicKeyCredentialRpEntity(id=self.domain, name=self.name),
            attestation=webauthn.AttestationConveyancePreference.NONE,
            # The library would accept any subdomain.
            verify_origin=lambda seen: seen == own,
        )
        server.allowed_algorithms = [
            webauthn.PublicKeyCredentialParameters(
                type=webauthn.PublicKeyCredentialType.PUBLIC_KEY, alg=algorithm
            )
            for algorithm in _ALGORITHMS
        ]
        return server

    def _user_handle(self, uid: int) -> bytes:
        # Devices reveal the user handle to any site's request: it must not identify the user
        # (WebAuthn section 14.6.1).
        return from_base64url(self.key.fingerprint("passkey user", str(uid))) or b""

    def _challenge(self, purpose: str, uid: int, browser: str, now: Instant) -> bytes:
        ticket = Ticket(uid=uid, browser=browser, expires_at=later(now, LIFETIME))
        return seal_ticket(ticket, f"passkey {purpose}", self.sealer, self.random).encode("ascii")

    def _once(
        self, answer: PasskeyResponse, purpose: str, uid: int, browser: str, now: Instant
    ) -> Voucher | None:
        ticket = open_ticket(
            answer.challenge, Ticket, f"passkey {purpose}", self.sealer, LIFETIME, now
        )
        if ticket is None or not browser or not same(ticket.browser, browser) or ticket.uid != uid:
            return None
        return Voucher(
            VoucherKind.CHALLENGE,
            self.key.fingerprint("challenge", answer.challenge),
            client_id="",
            grant_id="",
            payload="",
            expires_at=Instant(ticket.expires_at),
            redeemed_at=now,
        )


def read_answer(
    text: str, parts: Sequence[str] = ("authenticatorData", "clientDataJSON", "signature")
) -> PasskeyResponse | None:
    """Parse a browser's response; None unless each part has a valid size and form."""
    if len(text) > LONGEST:
        return None
    members = read_object(text.encode("utf-8", "surrogatepass"))
    response = None if members is None else members.get("response")
    if members is None or not isinstance(response, dict) or members.get("type") != "public-key":
        return None
    response_members = cast("dict[str, object]", response)
    handle = _part(members.get("rawId"), _LONGEST_HANDLE)
    kept = {name: _part(response_members.get(name), _LONGEST_PART) for name in parts}
    if response_members.get("userHandle"):
        kept["userHandle"] = _part(response_members["userHandle"], 64)
    if not handle or not all(kept.values()):
        return None
    client_data = read_object(_decoded(kept["clientDataJSON"]))
    challenge = None if client_data is None else client_data.get("challenge")
    if client_data is None or client_data.get("crossOrigin") or not isinstance(challenge, str):
        return None
    sealed = from_base64url(challenge) if challenge.isascii() else None
    if sealed is None or not sealed.isascii():
        return None
    return PasskeyResponse(handle, kept, sealed.decode("ascii"))


def _part(value: object, longest: int) -> str:
    """Return the text if it is base64url of at most so many bytes; otherwise ""."""
    if not isinstance(value, str) or not value.isascii():
        return ""
    data = from_base64url(value)
    return value if data is not None and 0 < len(data) <= longest else ""


def _decoded(text: str) -> bytes:
    return from_base64url(text) or b""


def _state(answer: PasskeyResponse) -> dict[str, object]:
    # The challenge was decrypted, so it is known to be ours.
    challenge = to_base64url(answer.challenge.encode("ascii"))
    return {
        "challenge": challenge,
        "user_verification": webauthn.UserVerificationRequirement.REQUIRED,
    }


def _is_sound(made: "webauthn.AttestedCredentialData") -> bool:
    """Return whether the key has a requested algorithm and can verify a signature."""
    algorithm: object = made.public_key.get(_ALGORITHM)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if algorithm not in _ALGORITHMS:
        return False
    if not 0 < len(made.credential_id) <= _LONGEST_HANDLE:
        return False
    try:
        made.public_key.verify(b"", b"")
    except InvalidSignature:
        return True
    return False


def _descriptors(passkeys: Sequence[Passkey]) -> "list[webauthn.PublicKeyCredentialDescriptor]":
    return [
        webauthn.PublicKeyCredentialDescriptor(
            type=webauthn.PublicKeyCredentialType.PUBLIC_KEY, id=_decoded(passkey.handle)
        )
        for passkey in passkeys
    ]
