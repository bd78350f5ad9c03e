"""Familiar browsers: those in which a user signed in to the account before.

Attackers use up the attempts that an account shares among all browsers; a familiar browser has a
few of its own, so that attackers cannot lock users out. The cookie gives no access, and no more
attempts than an unknown browser has.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import days
from valetkey.kernel.secret import FingerprintKey, same, to_base64url

LIFETIME = days(180)
"""How long a browser stays familiar after the last sign-in."""

_MOST = 5
_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}(?:\.[A-Za-z0-9_-]{43}){1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FamiliarBrowser:
    """The cookie of one browser, "" for none: a random name, and a mark for each account."""

    cookie: str
    key: FingerprintKey

    def mark(self, uid: Uid) -> str:
        """Return this browser's throttle name for the account; "" if it is not familiar."""
        if not _COOKIE.fullmatch(self.cookie):
            return ""
        name, *marks = self.cookie.split(".")
        own = self._mark_of(name, uid)
        return own if any(same(own, each) for each in marks) else ""

    def with_account(self, uid: Uid, random: Callable[[int], bytes]) -> str:
        """Return the cookie extended by an account that just signed in."""
        known = bool(_COOKIE.fullmatch(self.cookie))
        name, *marks = self.cookie.split(".") if known else (to_base64url(random(16)),)
        own = self._mark_of(name, uid)
        others = [each for each in marks if each != own]
        return ".".join((name, own, *others[: _MOST - 1]))

    def _mark_of(self, name: str, uid: Uid) -> str:
        return self.key.of("familiar browser", f"{name} {uid}")
