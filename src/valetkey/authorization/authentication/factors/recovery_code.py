"""Recovery codes: ten, to be printed and kept, each of which stands in for a lost factor once."""

from collections.abc import Callable, Sequence

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.secret import Fingerprint, FingerprintKey

COUNT = 10
"""Codes in a set."""

_ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""What nobody confuses in print: neither 0 and O nor 1 and I."""

_LENGTH = 12
_GROUP = 4


def fresh_codes(random: Callable[[int], bytes]) -> tuple[str, ...]:
    """A new set: 60 bits each, as `ABCD-EFGH-JKLM`."""
    return tuple(_written(random(_LENGTH)) for _ in range(COUNT))


def fingerprint(key: FingerprintKey, uid: Uid, typed: str) -> Fingerprint | None:
    """What is kept of a code, however it is typed; None for what cannot be one."""
    code = "".join(each for each in typed.upper() if each not in "- ")
    if len(code) != _LENGTH or not set(code) <= set(_ALPHABET):
        return None
    return key.of("recovery code", f"{uid}:{code}")


def fingerprints(key: FingerprintKey, uid: Uid, codes: Sequence[str]) -> list[Fingerprint]:
    """The same for a set that was just made."""
    return [print_ for code in codes if (print_ := fingerprint(key, uid, code)) is not None]


def _written(drawn: bytes) -> str:
    # 32 letters divide 256: each is as likely as any other.
    letters = "".join(_ALPHABET[each % len(_ALPHABET)] for each in drawn)
    return "-".join(letters[place : place + _GROUP] for place in range(0, _LENGTH, _GROUP))
