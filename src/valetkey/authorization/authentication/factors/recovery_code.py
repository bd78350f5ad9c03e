"""Recovery codes: ten printable codes, each of which replaces a lost factor once."""

from collections.abc import Callable, Sequence

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.secret import Fingerprint, FingerprintKey

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
    code = "".join(each for each in typed.upper() if each not in "- ")
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
