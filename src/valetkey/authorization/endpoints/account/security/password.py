"""/account/security/password: another password, or none where passkeys open the account."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.factors import remove_password
from valetkey.authorization.deeds.account.password_change import (
    NewPassword,
    NewPasswordFault,
    PasswordChange,
)
from valetkey.authorization.endpoints.account.security.addresses import (
    PASSWORD,
    REMOVE_PASSWORD,
    SECURITY,
)
from valetkey.authorization.endpoints.account.security.secured import (
    secured,
    secured_form,
    still_there,
)
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.account.factors import FactorKind
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.security.password import PasswordPage
from valetkey.authorization.pages.account.security.remove import Removed, RemovePage
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.sign_in.password import SHORTEST
from valetkey.authorization.sign_in.session import NewSession
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import Refusal
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_FIELDS = ("current", "new", "again")
_NEWS = minutes(5)
_BAD_REQUEST = 400
_UNAUTHORIZED = 401
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class PasswordEndpoint:
    """The password of who is signed in."""

    site: Site
    deed: PasswordChange

    async def get(self, request: Request) -> Response:
        """The page. That the password was changed is said only while it is news."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        if asked := await self._asked_for_more(request, seen):
            return asked
        changed = read_query(request.query).get("changed") is not None
        return await self._page(request, seen, None, changed=changed)

    async def post(self, request: Request) -> Response:
        """Change it, or show what went wrong beside the field."""
        found = await posted(self.site, request, opaque=_FIELDS)
        if isinstance(found, Response):
            return found
        seen, form = found
        if asked := await self._asked_for_more(request, seen):
            return asked
        typed = NewPassword(*(form.get(name) or "" for name in _FIELDS))
        new = NewSession.fresh(request.headers.get("user-agent") or "", self.site.random)
        cookie = self.site.cookies.session(request)
        fault = await self.deed.change(
            seen.signed_in, typed, cookie, new, request.address, request.at
        )
        if fault is not None:
            return await self._page(request, seen, fault)
        cookies = self.site.cookies.begin(new.cookie, seen.signed_in.session.id)
        return self.site.goes_to(f"{PASSWORD}?changed=1", *cookies)

    async def ask_to_remove(self, request: Request) -> Response:
        """The question before passkeys alone open the account."""
        seen = await secured(self.site, request)
        if isinstance(seen, Response):
            return seen
        uid = seen.signed_in.user.uid
        kinds = await self.site.store.read(lambda tx: tx.credentials.kinds_of(uid))
        if FactorKind.PASSWORD not in kinds:
            return self.site.goes_to(SECURITY)
        page = RemovePage(
            REMOVE_PASSWORD,
            seen.csrf,
            Removed.PASSWORD,
            impossible=FactorKind.PASSKEY not in kinds,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def remove(self, request: Request) -> Response:
        """Remove it."""
        found = await secured_form(self.site, request)
        if isinstance(found, Response):
            return found
        seen, now = found[0], request.at
        await self.site.store.write(
            lambda tx: remove_password(tx, still_there(tx, self.site, seen, now), now),
            done_by=by_user(seen.signed_in.user.uid),
        )
        return self.site.goes_to(f"{SECURITY}?done=password-removed")

    async def _asked_for_more(self, request: Request, seen: Visit) -> Response | None:
        # The current password is asked here: only a second factor can add to it.
        uid = seen.signed_in.user.uid
        guarded = await self.site.store.read(lambda tx: tx.users.has_second_factor(uid))
        return await stepped_up(self.site, request, seen) if guarded else None

    async def _page(
        self,
        request: Request,
        seen: Visit,
        fault: NewPasswordFault | Refusal | None,
        *,
        changed: bool = False,
    ) -> Response:
        user = seen.signed_in.user
        since = await self.site.store.read(lambda tx: tx.users.password_set_at(user.uid))
        refusal = fault if isinstance(fault, Refusal) else None
        wait = 0 if refusal is None else refusal.retry_after
        page = PasswordPage(
            action=PASSWORD,
            csrf=seen.csrf,
            username=user.username,
            shortest=SHORTEST,
            since=None if since is None else When(since, request.at),
            changed=changed and since is not None and since + _NEWS > request.at,
            wrong=refusal is not None and not wait,
            wait=wait,
            fault=fault if isinstance(fault, NewPasswordFault) else None,
        )
        headers = (*seen.headers, ("retry-after", str(wait))) if wait else seen.headers
        status = _TOO_MANY if wait else _UNAUTHORIZED if refusal else _BAD_REQUEST if fault else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=headers)
