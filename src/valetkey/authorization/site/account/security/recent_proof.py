"""Recent authentication for changes of factors; adding a factor counts as one."""

from dataclasses import dataclass

from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import (
    NewSession,
    find_still_signed_in,
    prove,
)
from valetkey.authorization.model.account.user import User
from valetkey.authorization.site.page import SignedInRequest
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Pairs


def require_still_signed_in(tx: Transaction, browsers: Browsers, request: SignedInRequest) -> User:
    """The user as the transaction sees them. Refused (forbidden) if the session has ended."""
    found = find_still_signed_in(tx, request.session.id, browsers.sessions, request.now)
    if found is None or found.user.uid != request.user.uid:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "you have been signed out; sign in and try again",
                "account.signed_out",
            )
        )
    return found.user


@dataclass(frozen=True, slots=True)
class RecentProof:
    """Count the addition of a factor as recent authentication.

    Otherwise the user would have to authenticate again at once.
    """

    browsers: Browsers
    request: SignedInRequest
    new: NewSession

    @staticmethod
    def of(browsers: Browsers, request: SignedInRequest) -> "RecentProof":
        """For one request."""
        agent = request.request.headers.get("user-agent") or ""
        return RecentProof(browsers, request, NewSession.fresh(agent, browsers.random))

    def note(self, tx: Transaction, methods: tuple[str, ...]) -> bool:
        """Store it under another session cookie. False if another tab was faster."""
        now = self.request.now
        asking = find_still_signed_in(tx, self.request.session.id, self.browsers.sessions, now)
        if asking is None:
            return False
        cookie = self.browsers.cookies.session(self.request.request)
        key = self.browsers.keyring.fingerprint_key
        return prove(tx, cookie, self.new, asking, key, now, methods=methods)

    @property
    def cookies(self) -> Pairs:
        """The headers that set that cookie."""
        return self.browsers.cookies.begin(self.new.cookie, self.request.session.id)
