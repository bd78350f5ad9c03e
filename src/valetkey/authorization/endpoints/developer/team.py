"""/developer/apps/{client_id}/team: who looks after an app."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from valetkey.authorization.deeds.developer.ownership import OwnApp
from valetkey.authorization.deeds.developer.team import FreshInvitation, Teams, Trouble
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app, require_owner
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.viewer import viewer_of
from valetkey.authorization.model.account.user import LARGEST_UID, Uid
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.model.register.membership import Membership, TeamRole
from valetkey.authorization.pages.developer.team.pages import (
    InvitationLine,
    MemberLine,
    RemoveMemberPage,
    TeamPage,
)
from valetkey.authorization.site.site import DEVELOPER, Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_CONFLICT = 409
_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_DONE = ("invited", "withdrawn", "changed", "removed")


@dataclass(frozen=True, slots=True)
class TeamEndpoint:
    """Everybody in the team sees it; its owners change it."""

    site: Site
    teams: Teams

    async def get(self, request: Request) -> Response:
        """The list."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        # Asked before the form is shown: what is typed into it is not typed again.
        if app.membership.owns and (back := await self._stepped(request, seen, app)):
            return back
        told = read_query(request.query).get("done") or ""
        return await self._page(request, seen, app, done=told if told in _DONE else "")

    async def post(self, request: Request) -> Response:
        """Ask somebody in, take an invitation back, or change a role."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        app = await require_owner(self.site, request, seen, request.arguments["client_id"])
        if back := await self._stepped(request, seen, app):
            return back
        do = form.get("do")
        if do == "invite":
            return await self._invite(request, seen, app, form)
        if do == "withdraw":
            return await self._withdraw(request, seen, app, form)
        return await self._change(request, seen, app, form)

    async def ask(self, request: Request) -> Response:
        """The question before somebody goes."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        if back := await self._stepped(request, seen, app):
            return back
        uid = self._chosen(seen, app, read_query(request.query))
        client_id = app.client.id
        line = await self.site.store.read(
            lambda tx: self._line(tx, tx.members.find(client_id, uid), seen, request.at)
        )
        if line is None:
            raise nothing_there("person")
        head = head_of(app)
        page = RemoveMemberPage(head, head.at("team/remove"), seen.csrf, line)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def remove(self, request: Request) -> Response:
        """They go."""
        sent = await posted(self.site, request)
        if isinstance(sent, Response):
            return sent
        seen, form = sent
        app = await own_app(self.site, request, seen)
        if back := await self._stepped(request, seen, app):
            return back
        uid, by, now = self._chosen(seen, app, form), seen.signed_in.user.uid, request.at
        trouble = await self.site.store.write(
            lambda tx: self.teams.remove(tx, app.client.id, by, uid, now), done_by=by_user(by)
        )
        if trouble is Trouble.GONE:
            raise nothing_there("person")
        if trouble is not None:
            return await self._page(request, seen, app, trouble=trouble.value)
        place = DEVELOPER if uid == by else f"{head_of(app).at('team')}?done=removed"
        return self.site.goes_to(place)

    async def _invite(self, request: Request, seen: Visit, app: OwnApp, form: Form) -> Response:
        invited = (form.get("invited") or "").strip()
        role = TeamRole.OWNER if form.get("role") == TeamRole.OWNER else TeamRole.MEMBER
        random, by, now = self.site.random, seen.signed_in.user, request.at
        fresh = FreshInvitation(fresh_id("ti", random), fresh_secret(Prefix.LINK, random))
        language = viewer_of(request, by).language.tag
        trouble = await self.site.store.write(
            lambda tx: self.teams.invite(
                tx, app.client.id, by, invited, role, fresh, now, language=language
            ),
            done_by=by_user(by.uid),
        )
        if trouble is Trouble.GONE:
            raise nothing_there("app")
        if trouble is not None:
            return await self._page(request, seen, app, trouble=trouble.value, typed=invited)
        return self._done(app, "invited")

    async def _withdraw(self, request: Request, seen: Visit, app: OwnApp, form: Form) -> Response:
        named, by, now = form.get("invitation") or "", seen.signed_in.user.uid, request.at
        done = named.isascii() and await self.site.store.write(
            lambda tx: self.teams.withdraw(tx, app.client.id, by, named, now),
            done_by=by_user(by),
        )
        return self._done(app, "withdrawn" if done else "")

    async def _change(self, request: Request, seen: Visit, app: OwnApp, form: Form) -> Response:
        uid, by, now = self._chosen(seen, app, form), seen.signed_in.user.uid, request.at
        role = next((role for role in TeamRole if role == form.get("role")), None)
        if role is None:
            raise nothing_there("person")
        trouble = await self.site.store.write(
            lambda tx: self.teams.change(tx, app.client.id, by, uid, role, now),
            done_by=by_user(by),
        )
        if trouble is Trouble.GONE:
            raise nothing_there("person")
        if trouble is not None:
            return await self._page(request, seen, app, trouble=trouble.value)
        return self._done(app, "changed")

    def _done(self, app: OwnApp, what: str) -> Response:
        place = head_of(app).at("team")
        return self.site.goes_to(f"{place}?done={quote(what)}" if what else place)

    async def _stepped(self, request: Request, seen: Visit, app: OwnApp) -> Response | None:
        return await stepped_up(self.site, request, seen, head_of(app).at("team"))

    def _chosen(self, seen: Visit, app: OwnApp, said: Form) -> Uid:
        """Whom the form names. Refused with `not_found` for others than oneself, but by owners."""
        text = said.get("member") or ""
        if _NUMBER.fullmatch(text) is None or int(text) > LARGEST_UID:
            raise nothing_there("person")
        uid = Uid(int(text))
        if uid != seen.signed_in.user.uid and not app.membership.owns:
            raise nothing_there("person")
        return uid

    async def _page(
        self,
        request: Request,
        seen: Visit,
        app: OwnApp,
        *,
        trouble: str = "",
        typed: str = "",
        done: str = "",
    ) -> Response:
        client_id, now = app.client.id, request.at

        def work(
            tx: Transaction,
        ) -> tuple[list[MemberLine | None], list[InvitationLine]]:
            team = [self._line(tx, one, seen, now) for one in tx.members.team(client_id)]
            waiting = [
                InvitationLine(
                    each.id, each.invited, each.role is TeamRole.OWNER, When(each.created_at, now)
                )
                for each in tx.team_invitations.to(client_id, now)
            ]
            return team, waiting

        team, waiting = await self.site.store.read(work)
        head = head_of(app)
        page = TeamPage(
            app=head,
            action=head.at("team"),
            csrf=seen.csrf,
            members=tuple(line for line in team if line is not None),
            waiting=tuple(waiting),
            typed=typed,
            trouble=trouble,
            done=done,
            by_mail=self.teams.mailroom.is_on,
        )
        status = _CONFLICT if trouble else 200
        return self.site.page(request, page, status, user=seen.signed_in.user, headers=seen.headers)

    def _line(
        self, tx: Transaction, one: Membership | None, seen: Visit, now: Instant
    ) -> MemberLine | None:
        user = None if one is None else tx.users.find(one.uid)
        if one is None or user is None:
            return None
        return MemberLine(
            number=str(user.uid),
            name=user.name,
            username=user.username,
            owns=one.owns,
            since=When(one.since, now),
            here=user.uid == seen.signed_in.user.uid,
        )
