"""/account/security/password: change the password, or remove it if a passkey signs in."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.factors import remove_password
from valetkey.authorization.actions.account.password_change import (
    NewPassword,
    NewPasswordFault,
    PasswordChange,
)
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.authentication.session import NewSession
from valetkey.authorization.layout.addresses import ADDRESSES, SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import FactorKind
from valetkey.authorization.site.account.security.confirm import (
    Removed,
    RemovePage,
    require_still_signed_in,
)
from valetkey.authorization.site.page import (
    Act,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
    confirmed_if_guarded,
)
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.words import translatable

PASSWORD = ADDRESSES["password"]
REMOVE = ADDRESSES["remove_password"]

_FIELDS = ("current", "new", "again")
_RECENT = minutes(5)
_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_TOO_MANY = 429


class PasswordPage(Struct, frozen=True):
    """The context of password.html.

    Its form posts `csrf`, `current`, `new` and `again`. What was typed is secret
    and never shown again.
    """

    template: ClassVar[str] = "account/security/password.html"
    title: ClassVar[str] = translatable("Password")
    scripts: ClassVar[tuple[str, ...]] = ("show.js", "strength.js")

    action: str
    #: Shown, and used by password managers.
    username: str
    #: The least number of characters in a new password.
    shortest: int
    #: When the password was set; None where the account has none.
    since: When | None
    changed: bool = False
    #: Whether the current password was wrong.
    wrong: bool = False
    #: Seconds until another attempt is allowed.
    wait: int = 0
    fault: NewPasswordFault | None = None


class Password(Struct, frozen=True):
    """Change and remove the password of the signed-in user."""

    store: Store
    browsers: Browsers
    change: PasswordChange

    def pages(self) -> tuple[Page[SignedInRequest], ...]:
        """Return the form, and the confirmation before the password is removed."""
        return (
            # The form asks for the current password: only a second factor adds to that.
            Page(PASSWORD, confirmed_if_guarded, self.show, Act(self.save, opaque=_FIELDS)),
            Page(REMOVE, confirmed, self.ask_to_remove, Act(self.remove)),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the password form. "Password changed" is shown only shortly after a change."""
        changed = request.query.get("changed") is not None
        return await self._form(request, None, changed=changed)

    async def save(self, request: SignedInRequest) -> Outcome:
        """Change the password, or show the fault beside its field."""
        now = request.now
        typed = NewPassword(*(request.form.get(name) or "" for name in _FIELDS))
        new = NewSession.fresh(
            request.request.headers.get("user-agent") or "", self.browsers.random
        )
        cookie, address = self.browsers.cookies.session(request.request), request.request.address
        fault = await self.change.change(request.signed_in, typed, cookie, new, address, now)
        if fault is not None:
            return await self._form(request, fault)
        cookies = self.browsers.cookies.begin(new.cookie, request.session.id)
        return SeeOther(f"{PASSWORD}?changed=1", cookies)

    async def ask_to_remove(self, request: SignedInRequest) -> Outcome:
        """Show the confirmation before the password is removed."""
        uid = request.user.uid
        kinds = await self.store.read(lambda tx: tx.credentials.kinds_of(uid))
        if FactorKind.PASSWORD not in kinds:
            return SeeOther(SECURITY)
        impossible = FactorKind.PASSKEY not in kinds
        return Show(RemovePage(REMOVE, Removed.PASSWORD, impossible=impossible))

    async def remove(self, request: SignedInRequest) -> Outcome:
        """Remove the password."""
        await self.store.write(
            lambda tx: remove_password(
                tx, require_still_signed_in(tx, self.browsers, request), request.now
            ),
            done_by=request.actor,
        )
        return SeeOther(f"{SECURITY}?done=password-removed")

    async def _form(
        self,
        request: SignedInRequest,
        fault: NewPasswordFault | Refusal | None,
        *,
        changed: bool = False,
    ) -> Show:
        user, now = request.user, request.now
        since = await self.store.read(lambda tx: tx.users.password_set_at(user.uid))
        refusal = fault if isinstance(fault, Refusal) else None
        wait = 0 if refusal is None else refusal.retry_after
        context = PasswordPage(
            action=PASSWORD,
            username=user.username,
            shortest=SHORTEST,
            since=None if since is None else When(since, now),
            changed=changed and since is not None and since + _RECENT > now,
            wrong=refusal is not None and not wait,
            wait=wait,
            fault=fault if isinstance(fault, NewPasswordFault) else None,
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if refusal else _BAD_REQUEST if fault else 200
        return Show(context, status, (("retry-after", str(wait)),) if wait else ())
