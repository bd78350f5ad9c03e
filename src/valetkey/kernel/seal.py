"""Encrypt data at rest, and tickets that a page returns unchanged (AES-256-GCM).

Reading the database does not reveal what is sealed.
"""

import hmac
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from valetkey.kernel.moment import Instant, Lifetime, is_live
from valetkey.kernel.secret import from_base64url, to_base64url

_SEALED = re.compile(r"v([1-9][0-9]{0,8})\.([A-Za-z0-9_-]+)")
_NONCE = 12
_TAG = 16
_KEY_SIZE = 32


@dataclass(frozen=True, slots=True, eq=False)
class SealingKey:
    """One version of the encryption key: 32 random bytes."""

    version: int
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Check that the key has 32 bytes and its version is 1 or above."""
        if len(self.secret) != _KEY_SIZE or self.version < 1:
            message = f"a sealing key has {_KEY_SIZE} bytes and a version above zero"
            raise ValueError(message)


@dataclass(frozen=True, slots=True, eq=False)
class Sealer:
    """Encrypt with the newest key and decrypt with any key.

    `context` names where the encrypted text is stored, such as "signing_keys.private:" and the
    row's id; moved to another place, it does not decrypt. `newer` is called for keys that were
    added later when a text names an unknown key version. It must be cheap, because an attacker can
    invent such a text.
    """

    keys: tuple[SealingKey, ...]
    newer: Callable[[], Collection[SealingKey]] | None = None
    _learnt: dict[int, SealingKey] = field(default_factory=dict[int, SealingKey], repr=False)

    def seal(self, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
        """Encrypt `plain` as `v<version>.<base64url>`, bound to this context."""
        newest = self.keys[0]
        return f"v{newest.version}.{_seal(newest.secret, plain, context, random)}"

    def open(self, sealed: str, context: str) -> bytes | None:
        """Decrypt; return None if any byte, the version or the context differs."""
        match = _SEALED.fullmatch(sealed)
        if match is None:
            return None
        key = self._find(int(match[1]))
        return None if key is None else _open(key.secret, match[2], context)

    def _find(self, version: int) -> SealingKey | None:
        for key in self.keys:
            if key.version == version:
                return key
        if version not in self._learnt and self.newer is not None:
            self._learnt.update({key.version: key for key in self.newer()})
        return self._learnt.get(version)

    def is_current(self, sealed: str) -> bool:
        """Return whether the newest key encrypted it; if not, encrypt it again on next write."""
        return sealed.startswith(f"v{self.keys[0].version}.")


def seal_with(secret: str, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
    """Encrypt `plain` with a key derived from `secret`, a string of at least 128 random bits."""
    return f"v1.{_seal(_extract(secret), plain, context, random)}"


def open_with(secret: str, sealed: str, context: str) -> bytes | None:
    """Decrypt the output of `seal_with`; None for another secret or context or a changed text."""
    match = _SEALED.fullmatch(sealed)
    if match is None or match[1] != "1":
        return None
    return _open(_extract(secret), match[2], context)


def _seal(secret: bytes, plain: bytes, context: str, random: Callable[[int], bytes]) -> str:
    nonce = random(_NONCE)
    place = context.encode()
    return to_base64url(nonce + AESGCM(_derive(secret, place)).encrypt(nonce, plain, place))


def _open(secret: bytes, text: str, context: str) -> bytes | None:
    data = from_base64url(text)
    if data is None or len(data) < _NONCE + _TAG:
        return None
    place = context.encode("utf-8", "surrogatepass")
    try:
        return AESGCM(_derive(secret, place)).decrypt(data[:_NONCE], data[_NONCE:], place)
    except InvalidTag:
        return None


def _extract(secret: str) -> bytes:
    # HKDF-Extract (RFC 5869 section 2.2): the secret is text, not uniform bytes.
    return hmac.digest(b"valetkey seal with", secret.encode("utf-8", "surrogatepass"), "sha256")


def _derive(secret: bytes, context: bytes) -> bytes:
    # HKDF-Expand, one block (RFC 5869 section 2.3). One key for each context keeps random nonces
    # far from their limit of 2**32 messages for each key.
    return hmac.digest(secret, b"valetkey seal\0" + context + b"\x01", "sha256")


T = TypeVar("T", bound=msgspec.Struct)


class Ticket(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The user and browser of a ticket, and its expiry."""

    uid: int
    browser: str
    expires_at: int


def seal_ticket(
    ticket: msgspec.Struct, purpose: str, sealer: Sealer, random: Callable[[int], bytes]
) -> str:
    """Encrypt the ticket as text for this purpose."""
    return sealer.seal(msgspec.msgpack.encode(ticket), f"ticket:{purpose}", random)


def open_ticket(
    text: str, kind: type[T], purpose: str, sealer: Sealer, lifetime: Lifetime, now: Instant
) -> T | None:
    """Decrypt the output of `seal_ticket`; None for anything else.

    Also None for a ticket that has expired, or was issued in the future, for `lifetime`.
    """
    plain = sealer.open(text, f"ticket:{purpose}")
    if plain is None:
        return None
    try:
        ticket = msgspec.msgpack.decode(plain, type=kind)
    except msgspec.MsgspecError:
        # Encrypted by this server, but by a version with another ticket format.
        return None
    expires_at = Instant(getattr(ticket, "expires_at", 0))
    return ticket if is_live(Instant(expires_at - lifetime), expires_at, now) else None
