"""Notices: what people are told by letter because it concerns their account's safety."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from valetkey.authorization.deeds.account.mailroom import Mailroom
from valetkey.authorization.model.account.letter import Letter, LetterKind
from valetkey.authorization.model.account.user import User
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant


class WayIn(StrEnum):
    """What people add to their account to sign in with."""

    PASSKEY = "passkey"
    AUTHENTICATOR = "authenticator"
    ELSEWHERE = "elsewhere"


_PLACES = {
    WayIn.PASSKEY: "/account/security",
    WayIn.AUTHENTICATOR: "/account/security",
    WayIn.ELSEWHERE: "/account/connections",
}


@dataclass(frozen=True, slots=True)
class Notices:
    """Tells people, at an address that is known to be theirs."""

    issuer: str
    mailroom: Mailroom

    def password_changed(self, tx: Transaction, user: User, now: Instant) -> None:
        """Their password is another one now."""
        forgotten = f"{self.issuer}/account/forgotten"
        self._tell(tx, user, LetterKind.PASSWORD_CHANGED, {"forgotten": forgotten}, now)

    def new_device(self, tx: Transaction, user: User, user_agent: str, now: Instant) -> None:
        """Somebody signed in to their account in a browser where nobody had."""
        browser, system = browser_of(user_agent)
        values = {
            "browser": browser,
            "system": system,
            "time": f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M} UTC",
            "sessions": f"{self.issuer}/account/sessions",
        }
        self._tell(tx, user, LetterKind.NEW_DEVICE, values, now)

    def recovery_code_used(self, tx: Transaction, user: User, left: int, now: Instant) -> None:
        """One of their recovery codes stood in for a second factor; so many are left."""
        values = {"left": str(left), "security": f"{self.issuer}/account/security"}
        self._tell(tx, user, LetterKind.RECOVERY_CODE_USED, values, now)

    def way_in_added(self, tx: Transaction, user: User, way: WayIn, now: Instant) -> None:
        """Something opens their account that did not before."""
        values = {"way": way.value, "look": f"{self.issuer}{_PLACES[way]}"}
        self._tell(tx, user, LetterKind.WAY_IN_ADDED, values, now)

    def _tell(
        self, tx: Transaction, user: User, kind: LetterKind, values: Mapping[str, str], now: Instant
    ) -> None:
        if user.email_verified_at is None:
            # It may be anybody's address.
            return
        said = {"username": user.username, **values}
        self.mailroom.post(tx, letter_to(user, kind, said), now)


def letter_to(
    user: User, kind: LetterKind, values: Mapping[str, str], until: Instant | None = None
) -> Letter:
    """A letter to somebody with an account, in their language as far as they said it."""
    return Letter(kind, user.email, user.claims.locale or "en", values, user.uid, until)
