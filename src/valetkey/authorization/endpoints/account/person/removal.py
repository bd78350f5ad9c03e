"""/account/delete: the end of one's own account."""

from dataclasses import dataclass, replace

from valetkey.authorization.deeds.account.connected_apps import connected_apps
from valetkey.authorization.deeds.account.removal import Removal
from valetkey.authorization.endpoints.account.addresses import REMOVAL
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.site import SIGN_IN, Site
from valetkey.authorization.model.account.user import User, fold
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.person.data import (
    OwnedApp,
    RemovalPage,
    RemovalPlannedPage,
)
from valetkey.authorization.pages.visitor.when import When
from valetkey.authorization.sign_in.session import find_still_signed_in
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.exchange import Request, Response

_BAD_REQUEST = 400
_CONFLICT = 409
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class RemovalEndpoint:
    """Asks, and plans it."""

    site: Site
    deed: Removal

    async def get(self, request: Request) -> Response:
        """What it would end, for who proved a moment ago who they are."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        asks = await stepped_up(self.site, request, seen)
        return asks or await self._page(request, seen)

    async def post(self, request: Request) -> Response:
        """Plan it, and sign out everywhere."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        asks = await stepped_up(self.site, request, seen)
        if asks is not None:
            return asks
        user, typed = seen.signed_in.user, form.get("username") or ""
        if fold(typed) != fold(user.username):
            return await self._page(request, seen, _BAD_REQUEST, typed=typed)
        site, now, session = self.site, request.at, seen.signed_in.session.id

        def work(tx: Transaction) -> Instant | None:
            asking = find_still_signed_in(tx, session, site.sessions, now)
            mine = None if asking is None else tx.users.find_to_change(asking.user.uid)
            return None if mine is None else self.deed.plan(tx, mine, now)

        try:
            due = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            return await self._page(request, seen, _CONFLICT, last_owner=True)
        if due is None:
            return await self._page(request, seen, _CONFLICT)
        page = RemovalPlannedPage(When(due, now), SIGN_IN)
        return site.page(request, page, user=user, headers=site.cookies.end())

    async def _page(
        self,
        request: Request,
        seen: Visit,
        status: int = 200,
        *,
        typed: str = "",
        last_owner: bool = False,
    ) -> Response:
        user, now = seen.signed_in.user, request.at
        page = await self.site.store.scan(lambda tx: self._read(tx, seen, user, now))
        page = replace(
            page,
            typed=typed,
            wrong=status == _BAD_REQUEST,
            last_owner=last_owner or page.last_owner,
        )
        return self.site.page(request, page, status, user=user, headers=seen.headers)

    def _read(self, tx: Transaction, seen: Visit, user: User, now: Instant) -> RemovalPage:
        return RemovalPage(
            action=REMOVAL,
            csrf=seen.csrf,
            username=user.username,
            apps=len(connected_apps(tx, user.uid, now)),
            sessions=len(tx.sessions.live_of(user.uid, now)),
            days=max(1, self.deed.grace // _DAY),
            owned=tuple(
                OwnedApp(app.id, app.name or app.id) for app in self.deed.hindrances(tx, user)
            ),
            last_owner=self.deed.is_last_owner(tx, user),
        )
