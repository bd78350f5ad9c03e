"""Codes that users enter: of authenticator apps (TOTP, RFC 6238), and recovery codes."""

from base64 import b32encode
from collections.abc import Callable, Sequence
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint, FingerprintKey, same
from valetkey.kernel.typed_code import read_code

PERIOD = 30
"""Length of a time step in seconds."""

_BYTES = 20
_DIGITS = 6
_AROUND = (0, -1, 1)
"""The accepted steps, which allow for a phone's clock being slightly off."""


def fresh_key(random: Callable[[int], bytes]) -> bytes:
    """Return a new secret of 160 bits, as RFC 4226 recommends."""
    return random(_BYTES)


def written(key: bytes) -> str:
    """Return the secret as users type it into their app: base32 in groups of four."""
    text = b32encode(key).decode("ascii").rstrip("=")
    return " ".join(text[place : place + 4] for place in range(0, len(text), 4))


def address(key: bytes, issuer: str, account: str) -> str:
    """Return the `otpauth` address for a QR code, in the form that apps agree on."""
    label = f"{quote(issuer, safe='')}:{quote(account, safe='')}"
    said = {
        "secret": b32encode(key).decode("ascii").rstrip("="),
        "issuer": issuer,
        "algorithm": "SHA1",
        "digits": _DIGITS,
        "period": PERIOD,
    }
    return f"otpauth://totp/{label}?{urlencode(said, quote_via=quote)}"


def code_at(key: bytes, step: int) -> str:
    """Return the code of a time step."""
    # SHA-1 is secure as a MAC, and the only hash that every app supports.
    return TOTP(key, _DIGITS, SHA1(), PERIOD).generate(step * PERIOD).decode("ascii")  # noqa: S303


def step_of(key: bytes, typed: str, now: Instant) -> int | None:
    """Return the step of a code: the current one or a neighbour; None for any other.

    The caller must store the step as used, so that no code is accepted twice.
    """
    digits = read_code(typed)
    if len(digits) != _DIGITS or not digits.isdigit():
        return None
    present = now // PERIOD
    found = [
        step for step in (present + each for each in _AROUND) if same(code_at(key, step), digits)
    ]
    return found[0] if found else None


COUNT = 10
"""Number of codes in a set."""

_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""Letters and digits that are not confused in print: without 0 and O, 1 and I."""

_LENGTH = 12
_GROUP = 4


def fresh_codes(random: Callable[[int], bytes]) -> tuple[str, ...]:
    """Return a new set of codes: 60 bits each, as `ABCD-EFGH-JKLM`."""
    return tuple(_written(random(_LENGTH)) for _ in range(COUNT))


def fingerprint(key: FingerprintKey, uid: Uid, typed: str) -> Fingerprint | None:
    """Return the stored fingerprint of a code, in any spelling; None for an impossible code."""
    code = read_code(typed)
    if len(code) != _LENGTH or not set(code) <= set(_ALPHABET):
        return None
    return key.of("recovery code", f"{uid}:{code}")


def fingerprints(key: FingerprintKey, uid: Uid, codes: Sequence[str]) -> list[Fingerprint]:
    """Return the fingerprints of a new set."""
    return [print_ for code in codes if (print_ := fingerprint(key, uid, code)) is not None]


def _written(drawn: bytes) -> str:
    # 32 letters divide 256: all are equally likely.
    letters = "".join(_ALPHABET[each % len(_ALPHABET)] for each in drawn)
    return "-".join(letters[place : place + _GROUP] for place in range(0, _LENGTH, _GROUP))
