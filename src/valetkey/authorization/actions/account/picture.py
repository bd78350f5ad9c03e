"""The picture of a profile: uploaded, replaced, removed."""

from collections.abc import Callable

from msgspec import Struct

from valetkey.authorization.actions.person import PICTURES
from valetkey.authorization.actions.users import Accounts, UserRecord
from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import to_base64url


class PictureChange(Struct, frozen=True):
    """Change the picture of a signed-in user. `issuer` is the URL of this server."""

    accounts: Accounts
    sessions: SessionSettings
    issuer: str
    random: Callable[[int], bytes]

    def upload(self, tx: Transaction, session_id: str, image: bytes, now: Instant) -> User | None:
        """Store the picture and set the claim `picture` to its address; None if signed out.

        The address is new for every picture, so that no cache shows the previous one.
        """
        name = to_base64url(self.random(16))
        user = self._change(tx, session_id, f"{self.issuer}{PICTURES}/{name}", now)
        if user is not None:
            tx.pictures.keep(user.uid, name, image)
        return user

    def remove(self, tx: Transaction, session_id: str, now: Instant) -> User | None:
        """Delete the uploaded picture and clear the claim; None if signed out.

        An address that the user or an app set in the meantime stays.
        """
        asking = find_still_signed_in(tx, session_id, self.sessions, now)
        if asking is None:
            return None
        user = tx.users.find_to_change(asking.user.uid)
        if user is None or not tx.pictures.name_of(user.uid):
            return user
        return self._change(tx, session_id, "", now)

    def _change(self, tx: Transaction, session_id: str, picture: str, now: Instant) -> User | None:
        asking = find_still_signed_in(tx, session_id, self.sessions, now)
        user = None if asking is None else tx.users.find_to_change(asking.user.uid)
        if user is None:
            return None
        claims = replace(user.claims, picture=picture)
        verified = user.email_verified_at is not None
        record = UserRecord(user.username, user.email, user.name, verified, claims)
        changed = self.accounts.change(tx, user, record, now)
        if isinstance(changed, User):
            return changed
        # Something else in the account breaks a rule that is newer than the account.
        detail = "; ".join(f"{fault.field}: {fault.detail}" for fault in changed)
        raise Refused(Refusal(ErrorCode.INVALID_REQUEST, detail, "picture.account"))
