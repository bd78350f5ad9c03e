"""/developer/invitations/{invitation_id}: come into a team, or stay away."""

from dataclasses import dataclass

from valetkey.authorization.deeds.developer.team import Teams
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.model.register.membership import TeamRole
from valetkey.authorization.pages.developer.head import AppHead
from valetkey.authorization.pages.developer.team.pages import InvitationPage
from valetkey.authorization.site.site import DEVELOPER, Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

INVITATIONS = f"{DEVELOPER}/invitations/"


@dataclass(frozen=True, slots=True)
class InvitationsEndpoint:
    """The question, and its answer: once."""

    site: Site
    teams: Teams

    async def get(self, request: Request) -> Response:
        """The question."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        link = read_query(request.hidden_query).get("link") or ""
        page = await self._asked(request, seen, link)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """The answer."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        asked, link = _asked_for(request), form.get("link") or ""
        user, now = seen.signed_in.user, request.at
        if form.get("do") != "accept":
            gone = await self.site.store.write(
                lambda tx: self.teams.decline(tx, asked, user, link, now), done_by=by_user(user.uid)
            )
            if not gone:
                raise _over()
            return self.site.goes_to(DEVELOPER)
        accepted = await self.site.store.write(
            lambda tx: self.teams.accept(tx, asked, user, link, now), done_by=by_user(user.uid)
        )
        if accepted is None:
            raise _over()
        return self.site.goes_to(AppHead(accepted.client_id, "").at())

    async def _asked(self, request: Request, seen: Visit, link: str) -> InvitationPage:
        asked, user, now = _asked_for(request), seen.signed_in.user, request.at

        def work(tx: Transaction) -> InvitationPage | None:
            found = self.teams.find(tx, asked, user, link, now)
            client = None if found is None else tx.clients.find(found.client_id)
            if found is None or client is None:
                return None
            by = tx.users.find(found.invited_by)
            return InvitationPage(
                action=f"{INVITATIONS}{asked}",
                csrf=seen.csrf,
                link=link,
                app_name=client.name or client.id,
                by="" if by is None else by.name or by.username,
                owner=found.role is TeamRole.OWNER,
            )

        page = await self.site.store.read(work)
        if page is None:
            raise _over()
        return page


def _asked_for(request: Request) -> str:
    named = request.arguments["invitation_id"]
    return named if named.isascii() and named.isprintable() else ""


def _over() -> Refused:
    return Refused(
        Refusal(
            ErrorCode.NOT_FOUND,
            "there is no such invitation for the account that is signed in; if it came by letter,"
            " open the link in the letter again, with the account of that address",
            "developer.invitation",
        )
    )
