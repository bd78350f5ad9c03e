"""/developer/apps/{client_id}/delete: end an app, knowing what it breaks."""

from dataclasses import dataclass

from valetkey.authorization.deeds.developer.ownership import OwnApp, find_own
from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.member import head_of, require_owner
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.developer.settings.pages import DeleteAppPage
from valetkey.authorization.site.site import DEVELOPER, Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.exchange import Request, Response

_FAULTY = 422


@dataclass(frozen=True, slots=True)
class DeleteEndpoint:
    """For owners alone."""

    site: Site
    portal: Portal

    async def get(self, request: Request) -> Response:
        """What it breaks, and for how many."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await require_owner(self.site, request, seen, request.arguments["client_id"])
        if back := await self._stepped(request, seen, app):
            return back
        return await self._page(request, seen, app)

    async def post(self, request: Request) -> Response:
        """Delete it, if its name was typed."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        app = await require_owner(self.site, request, seen, request.arguments["client_id"])
        if back := await self._stepped(request, seen, app):
            return back
        typed, uid, now = (form.get("name") or "").strip(), seen.signed_in.user.uid, request.at
        if typed != app.name:
            return await self._page(request, seen, app, typed=typed, wrong=True)

        def work(tx: Transaction) -> bool:
            held = tx.clients.find_to_change(app.client.id)
            current = None if held is None else find_own(tx, app.client.id, uid)
            if held is None or current is None or not current.membership.owns:
                return False
            self.portal.delete(tx, held, now)
            return True

        if not await self.site.store.write(work, done_by=by_user(uid)):
            raise nothing_there("app")
        return self.site.goes_to(f"{DEVELOPER}?deleted=1")

    async def _stepped(self, request: Request, seen: Visit, app: OwnApp) -> Response | None:
        return await stepped_up(self.site, request, seen, head_of(app).at("delete"))

    async def _page(
        self, request: Request, seen: Visit, app: OwnApp, *, typed: str = "", wrong: bool = False
    ) -> Response:
        client_id, now = app.client.id, request.at
        reach = await self.site.store.scan(lambda tx: tx.grants.reach(client_id, now))
        head = head_of(app)
        page = DeleteAppPage(
            head,
            head.at("delete"),
            seen.csrf,
            people=reach.people,
            authorizations=reach.authorizations,
            typed=typed,
            wrong=wrong,
        )
        status = _FAULTY if wrong else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)
