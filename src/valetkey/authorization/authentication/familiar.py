"""Familiar browsers: those in which somebody signed in before to the very account.

Whoever guesses at an account from elsewhere uses up its tries; the browser of its person has a few
of its own, so that nobody is kept out of their account by strangers (security 26). The cookie says
nothing but that: it opens nothing, and what it allows is as little as one stranger has.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import days
from valetkey.kernel.secret import FingerprintKey, same, to_base64url

LIFETIME = days(180)
"""So long a browser is familiar after the last sign-in."""

_MOST = 5
_COOKIE = re.compile(r"[A-Za-z0-9_-]{22}(?:\.[A-Za-z0-9_-]{43}){1,5}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Familiar:
    """The cookie of one browser, "" for none: a random name, and a mark for each account."""

    cookie: str
    key: FingerprintKey

    def mark(self, uid: Uid) -> str:
        """The name under which this browser's tries at the account count; "" for a stranger's."""
        if not _COOKIE.fullmatch(self.cookie):
            return ""
        name, *marks = self.cookie.split(".")
        own = self._mark_of(name, uid)
        return own if any(same(own, each) for each in marks) else ""

    def with_account(self, uid: Uid, random: Callable[[int], bytes]) -> str:
        """The cookie for a browser in which this person has just signed in as well."""
        known = bool(_COOKIE.fullmatch(self.cookie))
        name, *marks = self.cookie.split(".") if known else (to_base64url(random(16)),)
        own = self._mark_of(name, uid)
        others = [each for each in marks if each != own]
        return ".".join((name, own, *others[: _MOST - 1]))

    def _mark_of(self, name: str, uid: Uid) -> str:
        return self.key.of("familiar browser", f"{name} {uid}")
