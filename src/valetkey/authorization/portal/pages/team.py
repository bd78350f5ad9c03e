"""/developer/apps/{client_id}/team: the members of an app's team and their roles."""

import re
from collections.abc import Callable
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.developer.team import FreshInvitation, TeamError, Teams
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.layout.viewer import viewer_of
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import LARGEST_UID, Uid
from valetkey.authorization.site.developer.app import (
    APP,
    CONFIGURATION,
    AppHead,
    AppRequest,
    confirmed_at,
    member_of_app,
    owner_of_app,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    not_found,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret
from valetkey.kernel.words import translatable
from valetkey.web.body import Form

_CONFLICT = 409
_NUMBER = re.compile(r"[1-9][0-9]{0,15}", re.ASCII)
_DONE = ("invited", "withdrawn", "changed", "removed")


class MemberLine(Struct, frozen=True):
    """One member; `number` names them in forms."""

    number: str
    name: str
    username: str
    owns: bool
    since: When
    #: Whether it is the visitor.
    here: bool = False


class InvitationLine(Struct, frozen=True):
    """One invitation that was not answered yet."""

    id: str
    invited: str
    owner: bool
    since: When


class TeamPage(Struct, frozen=True):
    """The context of team.html. Its forms post `csrf` and `do`, with the fields of that action.

    `trouble` is the reason for a failure: invalid, number, member, twice, full, last_owner. `typed`
    is the input of the form that failed.
    """

    template: ClassVar[str] = "developer/team.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    members: tuple[MemberLine, ...]
    waiting: tuple[InvitationLine, ...] = ()
    typed: str = ""
    trouble: str = ""
    #: invited, withdrawn, changed, removed, or "" for nothing.
    done: str = ""
    #: Invitations are emailed; without email they are shown in the portal of the invited user.
    by_mail: bool = True


class RemoveMemberPage(Struct, frozen=True):
    """The context of remove_member.html. Its form posts `csrf` and `member`.

    With `member.here` the visitor leaves the team.
    """

    template: ClassVar[str] = "developer/remove_member.html"

    app: AppHead
    action: str
    member: MemberLine


class Team(Struct, frozen=True):
    """Show the team to its members; owners can change it."""

    store: Store
    random: Callable[[int], bytes]
    teams: Teams

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title, change = translatable("Team"), Act(self.change, requires=_may_change)
        remove = Act(self.remove)
        return (
            Page(f"{APP}/team", _may_see, self.show, change, title=title, nav=CONFIGURATION),
            Page(f"{APP}/team/remove", _confirmed_member, self.ask_to_remove, remove, title=title),
        )

    async def show(self, request: AppRequest) -> Outcome:
        """Show the members and open invitations."""
        done = request.query.get("done") or ""
        return await self._list(request, done=done if done in _DONE else "")

    async def change(self, request: AppRequest) -> Outcome:
        """Invite a user, withdraw an invitation, or change a role."""
        match request.form.get("do"):
            case "invite":
                return await self._invite(request)
            case "withdraw":
                return await self._withdraw(request)
            case _:
                return await self._change_role(request)

    async def ask_to_remove(self, request: AppRequest) -> Outcome:
        """Ask before a member is removed."""
        uid, client_id, head = _member(request, request.query), request.client.id, request.head
        line = await self.store.read(lambda tx: _line(tx, tx.members.find(client_id, uid), request))
        if line is None:
            raise not_found("person")
        return Show(RemoveMemberPage(head, head.at("team/remove"), line))

    async def remove(self, request: AppRequest) -> Outcome:
        """Remove the member."""
        uid, by, now = _member(request, request.form), request.user.uid, request.now
        trouble = await self.store.write(
            lambda tx: self.teams.remove(tx, request.client.id, by, uid, now),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "person")
        return SeeOther(DEVELOPER) if uid == by else _done(request, "removed")

    async def _invite(self, request: AppRequest) -> Outcome:
        invited = (request.form.get("invited") or "").strip()
        role = TeamRole.OWNER if request.form.get("role") == TeamRole.OWNER else TeamRole.MEMBER
        random, by, now = self.random, request.user, request.now
        fresh = FreshInvitation(fresh_id("ti", random), fresh_secret(Prefix.LINK, random))
        language = viewer_of(request.request, by).language.tag
        trouble = await self.store.write(
            lambda tx: self.teams.invite(
                tx, request.client.id, by, invited, role, fresh, now, language=language
            ),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "app", typed=invited)
        return _done(request, "invited")

    async def _withdraw(self, request: AppRequest) -> Outcome:
        named, by, now = request.form.get("invitation") or "", request.user.uid, request.now
        done = named.isascii() and await self.store.write(
            lambda tx: self.teams.withdraw(tx, request.client.id, by, named, now),
            done_by=request.actor,
        )
        return _done(request, "withdrawn" if done else "")

    async def _change_role(self, request: AppRequest) -> Outcome:
        uid, by, now = _member(request, request.form), request.user.uid, request.now
        role = next((role for role in TeamRole if role == request.form.get("role")), None)
        if role is None:
            raise not_found("person")
        trouble = await self.store.write(
            lambda tx: self.teams.change(tx, request.client.id, by, uid, role, now),
            done_by=request.actor,
        )
        if trouble is not None:
            return await self._refused(request, trouble, "person")
        return _done(request, "changed")

    async def _refused(
        self, request: AppRequest, trouble: TeamError, gone: str, *, typed: str = ""
    ) -> Show:
        if trouble is TeamError.GONE:
            raise not_found(gone)
        return await self._list(request, trouble=trouble.value, typed=typed)

    async def _list(
        self, request: AppRequest, *, trouble: str = "", typed: str = "", done: str = ""
    ) -> Show:
        client_id, now, head = request.client.id, request.now, request.head

        def read(tx: Transaction) -> tuple[list[MemberLine | None], list[InvitationLine]]:
            team = [_line(tx, one, request) for one in tx.members.team(client_id)]
            waiting = [
                InvitationLine(
                    each.id, each.invited, each.role is TeamRole.OWNER, When(each.created_at, now)
                )
                for each in tx.team_invitations.to(client_id, now)
            ]
            return team, waiting

        team, waiting = await self.store.read(read)
        context = TeamPage(
            app=head,
            action=head.at("team"),
            members=tuple(line for line in team if line is not None),
            waiting=tuple(waiting),
            typed=typed,
            trouble=trouble,
            done=done,
            by_mail=self.teams.outbox.is_on,
        )
        return Show(context, _CONFLICT if trouble else 200)


async def _may_see(visit: PageVisit) -> AppRequest:
    member = await member_of_app(visit)
    # Owners confirm before the form is shown: what they type into it must not be lost.
    return await confirmed_at(visit, member, "team") if member.app.membership.owns else member


async def _may_change(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await owner_of_app(visit), "team")


async def _confirmed_member(visit: PageVisit) -> AppRequest:
    return await confirmed_at(visit, await member_of_app(visit), "team")


def _member(request: AppRequest, said: Form) -> Uid:
    """Return the member that the form names. Refused (not found) for others, unless by an owner."""
    text = said.get("member") or ""
    if _NUMBER.fullmatch(text) is None or int(text) > LARGEST_UID:
        raise not_found("person")
    uid = Uid(int(text))
    if uid != request.user.uid and not request.app.membership.owns:
        raise not_found("person")
    return uid


def _done(request: AppRequest, what: str) -> SeeOther:
    place = request.head.at("team")
    return SeeOther(f"{place}?done={quote(what)}" if what else place)


def _line(tx: Transaction, one: Membership | None, request: AppRequest) -> MemberLine | None:
    user = None if one is None else tx.users.find(one.uid)
    if one is None or user is None:
        return None
    return MemberLine(
        number=str(user.uid),
        name=user.name,
        username=user.username,
        owns=one.owns,
        since=When(one.since, request.now),
        here=user.uid == request.user.uid,
    )
