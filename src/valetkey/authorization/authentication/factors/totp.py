"""Codes of authenticator apps: six digits that change every 30 seconds (RFC 6238)."""

from base64 import b32encode
from collections.abc import Callable
from urllib.parse import quote, urlencode

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import same

PERIOD = 30
"""Seconds in a step."""

_BYTES = 20
_DIGITS = 6
_AROUND = (0, -1, 1)
"""The steps that count: the clock of a phone may be a little off, and no more."""


def fresh_key(random: Callable[[int], bytes]) -> bytes:
    """A new secret of 160 bits, as RFC 4226 recommends."""
    return random(_BYTES)


def written(key: bytes) -> str:
    """The secret as people type it into their app: base32 in groups of four."""
    text = b32encode(key).decode("ascii").rstrip("=")
    return " ".join(text[place : place + 4] for place in range(0, len(text), 4))


def address(key: bytes, issuer: str, account: str) -> str:
    """The `otpauth` address that a QR code holds, in the form that apps agree on."""
    label = f"{quote(issuer, safe='')}:{quote(account, safe='')}"
    said = {
        "secret": b32encode(key).decode("ascii").rstrip("="),
        "issuer": issuer,
        "algorithm": "SHA1",
        "digits": _DIGITS,
        "period": PERIOD,
    }
    return f"otpauth://totp/{label}?{urlencode(said, quote_via=quote)}"


def looks_like_code(text: str) -> bool:
    """Whether it is six ASCII digits, however they are spaced."""
    digits = text.replace(" ", "")
    return len(digits) == _DIGITS and digits.isascii() and digits.isdigit()


def code_at(key: bytes, step: int) -> str:
    """The code of this step."""
    # SHA-1 as a MAC is sound, and the only one that every app knows.
    return TOTP(key, _DIGITS, SHA1(), PERIOD).generate(step * PERIOD).decode("ascii")  # noqa: S303


def step_of(key: bytes, typed: str, now: Instant) -> int | None:
    """The step whose code was typed: the present one, the one before or the one after; else None.

    Whoever accepts it must spend the step, so that no code counts twice.
    """
    digits = typed.replace(" ", "")
    if not looks_like_code(digits):
        return None
    present = now // PERIOD
    found = [
        step for step in (present + each for each in _AROUND) if same(code_at(key, step), digits)
    ]
    return found[0] if found else None
