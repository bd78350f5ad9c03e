"""Password change by a signed-in user: verifies the current password, ends all other access."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.authentication.password import (
    SHORTEST,
    PasswordSignIn,
    hash_prepared,
    is_well_known,
    prepare,
)
from valetkey.authorization.authentication.session import (
    NewSession,
    SignedIn,
    find_still_signed_in,
    record_authentication,
)
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import User, fold
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import SessionSettings
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal

_SALT = 16


class NewPasswordFault(StrEnum):
    """The reason why a new password is rejected."""

    SHORT = "short"
    IMPOSSIBLE = "impossible"  # too long, or with control characters
    NAME = "name"  # it is the username or the email address
    COMMON = "common"  # among the most used passwords
    SAME = "same"  # it is the current password
    DIFFERENT = "different"  # the two fields differ


@dataclass(frozen=True, slots=True, repr=False)
class NewPassword:
    """The submitted form. Never printed."""

    current: str
    new: str
    again: str

    def fault(self, user: User) -> NewPasswordFault | None:
        """Return why the new password is rejected for this user; None if it is acceptable."""
        found = new_password_fault(self.new, self.new, (user.username, user.email))
        if found is None and self.new == self.current:
            return NewPasswordFault.SAME
        return found or new_password_fault(self.new, self.again, ())


def new_password_fault(new: str, again: str, names: Iterable[str]) -> NewPasswordFault | None:
    """Return why the password is rejected for a user of these names; None if it is acceptable.

    Length and common passwords are checked (NIST SP 800-63B); there are no composition rules.
    """
    if len(new) < SHORTEST:
        return NewPasswordFault.SHORT
    if prepare(new) is None:
        return NewPasswordFault.IMPOSSIBLE
    if fold(new) in {part for name in names for part in _parts(name)}:
        return NewPasswordFault.NAME
    if is_well_known(new):
        return NewPasswordFault.COMMON
    return NewPasswordFault.DIFFERENT if new != again else None


def _parts(name: str) -> tuple[str, str]:
    whole = fold(name)
    return whole, whole.partition("@")[0]


class PasswordChange(Struct, frozen=True):
    """Change the password of a signed-in user, with the rate limits of the sign-in page."""

    passwords: PasswordSignIn
    accounts: Accounts
    sessions: SessionSettings
    random: Callable[[int], bytes]

    async def change(
        self,
        signed_in: SignedIn,
        typed: NewPassword,
        cookie: str,
        new: NewSession,
        address: str,
        now: Instant,
    ) -> NewPasswordFault | Refusal | None:
        """Change the password and end every other session and every grant. Return None if done.

        The current session continues under the cookie of `new`. A Refusal says that the current
        password was wrong (`invalid_grant`) or that there were too many attempts (`slow_down`).
        """
        user = signed_in.user
        if fault := typed.fault(user):
            return fault
        stored: list[str | None] = []
        found = await self.passwords.authenticate(
            user.username,
            typed.current,
            address,
            now,
            lambda tx, user: stored.append(tx.users.password_hash(user.uid)),
        )
        if isinstance(found, Refusal):
            return found
        prepared = prepare(typed.new)
        if prepared is None:
            return NewPasswordFault.IMPOSSIBLE
        offload, salt = self.passwords.offload, self.random(_SALT)
        data = await offload.run(hash_prepared, prepared, self.passwords.passwords, salt)

        def replace_password(tx: Transaction) -> bool:
            # Locked: of two parallel changes, the second finds another password than it verified.
            user = tx.users.find_to_change(found.uid)
            asking = find_still_signed_in(tx, signed_in.session.id, self.sessions, now)
            if user is None or asking is None or asking.user.uid != found.uid:
                return False
            if tx.users.password_hash(user.uid) != stored[-1]:
                return False
            self.accounts.set_password(tx, user, data, now, keep=asking.session.id)
            key = self.passwords.key
            record_authentication(tx, cookie, new, asking, key, now, methods=(Amr.PASSWORD,))
            return True

        if await self.passwords.store.write(replace_password, done_by=USUAL_ACTOR):
            return None
        return Refusal(
            ErrorCode.INVALID_GRANT,
            "the password or the session has changed",
            "password.overtaken",
        )
