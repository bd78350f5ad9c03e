"""/admin/groups/{group}: one group, its members, and the operations on it."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.user import Group, GroupMember, Uid, User, uid_of
from valetkey.authorization.operations.groups.groups import DELETE_GROUP, no_such_group
from valetkey.authorization.operations.groups.members import ADD_GROUP_MEMBER, REMOVE_GROUP_MEMBER
from valetkey.authorization.operations.operation import ObjectLink, Services, call_of, linked
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.api_roles import (
    API,
    MOST_SHOWN,
    NO_ROLES,
    RolesPart,
    declared_roles,
    roles_part,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Offer,
    Subject,
    confirmation,
)
from valetkey.authorization.site.admin.groups.groups import (
    GROUPS,
    NEW,
    Link,
    group_address,
    group_link,
)
from valetkey.authorization.site.admin.users.users import UserLine, line_of, user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.site.paging import ONE_PAGE, Paging, at_most, pages_beside
from valetkey.authorization.storage.apis import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.words import translatable
from valetkey.web.body import Form

GROUP = "/admin/groups/{group}"
MEMBERS = "/admin/groups/{group}/members"
ACT = "/admin/groups/{group}/{act}"

SHOWN = 50
"""Maximum number of members on a page."""

_SUBGROUPS = 200
_MOST_APIS = 200
_BUTTONS = Buttons.below("/groups/{group}")
_DONE = {
    "new": translatable("The group is created."),
    "edit": translatable("Saved."),
    "api-role": translatable("The role is assigned."),
    "api-role-removed": translatable("The role is removed."),
    "add": translatable("The user was added to the group."),
}
_LONGEST = 200
_MOST_COUNTED = 100_000
_BAD_REQUEST = 400


class MemberLine(Struct, frozen=True):
    """A direct member; `remove_url` is "" if the role may not remove members."""

    name: str
    username: str
    url: str
    since: When
    remove_url: str


class GroupPage(Struct, frozen=True):
    """The context of the group page. The form posts `csrf` and `person` to add a member."""

    template: ClassVar[str] = "admin/groups/group.html"

    name: str
    description: str
    since: When
    parent: Link | None
    subgroups: tuple[Link, ...]
    #: Names and addresses of the apps that require this group.
    apps: tuple[Link, ...]
    #: The same of APIs.
    apis: tuple[Link, ...]
    members: tuple[MemberLine, ...]
    ways: tuple[Offer, ...]
    #: The URL that adds a member; "" if the role may not.
    add_action: str
    new_url: str
    edit_url: str = ""
    api_roles: RolesPart = NO_ROLES
    paging: Paging = ONE_PAGE
    done: str = ""
    #: The submitted name, and the users that it could mean.
    person: str = ""
    unknown: bool = False
    several: tuple[UserLine, ...] = ()
    fault: str = ""


class _GroupState(Struct, frozen=True):
    group: Group
    members: Sequence[GroupMember]
    count: int
    subgroups: Sequence[Group]
    apps: Sequence[tuple[str, str]]
    requiring: Sequence[Api]
    roles: Sequence[AssignedRole]
    apis: Sequence[ApiWithRoles]


class GroupPages(Struct, frozen=True):
    """Show one group, change its members, and run operations on it."""

    services: Services
    links: Sequence[ObjectLink]

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the group, the form for another member, and the confirmation of operations."""
        add = Act(self.add, opaque=("person",))
        return (
            Page(GROUP, administrator(), self.show),
            Page(MEMBERS, administrator(Permission.USERS), act=add),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the group and a page of its members."""
        return await self._page(request, done=_BUTTONS.done(request.query.get("done"), _DONE))

    async def add(self, request: AdminRequest) -> Outcome:
        """Add the user that the text means; list the candidates if it is ambiguous."""
        actor, text = request.actor, (request.form.get("person") or "").strip()[:_LONGEST]

        def find_users(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.USERS)
            return resolve_users(tx, text)

        meant = await self.services.store.read(find_users)
        if len(meant) != 1:
            return await self._page(request, person=text, meant=meant, wrong=True)
        path = {"group": request.arguments["group"], "uid": str(meant[0].uid)}
        call = call_of(self.services, ADD_GROUP_MEMBER, actor, request.now, path)
        try:
            await ADD_GROUP_MEMBER.run(call)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            fault = refused.refusal.description
            return await self._page(request, person=text, fault=fault, wrong=True)
        return SeeOther(f"{group_address(_named(request))}?done=add")

    async def _finish(
        self, request: AdminRequest, confirmed: Confirmed, _result: object
    ) -> Outcome:
        if confirmed.operation is DELETE_GROUP:
            return SeeOther(f"{GROUPS}?deleted=1")
        return SeeOther(f"{group_address(_named(request))}?done={confirmed.button.slug}")

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        name, actor = _named(request), request.actor
        wanted = uid_of(form.get("uid") or "")

        def read_state(tx: Transaction) -> tuple[Group, User | None, Impact]:
            require(tx, actor, Permission.READ)
            group = tx.groups.find(name)
            if group is None:
                raise no_such_group()
            user = None if wanted is None else tx.users.find(wanted)
            members = tx.groups.size(group, _MOST_COUNTED)
            apps = tx.client_search.requiring_group(group.name)
            apis = tx.apis.requiring_group(group.name, _MOST_APIS)
            ends = Impact(members=members, closed_apps=len(apps), closed_apis=len(apis))
            return group, user, ends

        group, user, ends = await self.services.store.scan(read_state)
        facts: tuple[str, ...] = (group.description,) if group.description else ()
        if confirmed.operation is REMOVE_GROUP_MEMBER:
            if user is None:
                raise page_not_found()
            facts = (user.name or user.username, user.username, f"uid {user.uid}")
        return Subject(group_address(group.name), group.name, facts, ends)

    async def _page(
        self,
        request: AdminRequest,
        *,
        done: str = "",
        person: str = "",
        meant: Sequence[User] = (),
        fault: str = "",
        wrong: bool = False,
    ) -> Outcome:
        name, actor, now = _named(request), request.actor, request.now
        after = uid_of(request.query.get("after") or "") or 0

        def read_state(tx: Transaction) -> _GroupState:
            require(tx, actor, Permission.READ)
            group = tx.groups.find(name)
            if group is None:
                raise no_such_group()
            return _GroupState(
                group,
                tx.groups.members(group, after, SHOWN + 1),
                tx.groups.size(group, _MOST_COUNTED + 1),
                tx.groups.subgroups(group, _SUBGROUPS),
                tx.client_search.requiring_group(group.name),
                tx.apis.requiring_group(group.name, _MOST_APIS),
                tx.api_roles.of_group(group, MOST_SHOWN),
                declared_roles(tx),
            )

        seen = await self.services.store.scan(read_state)
        may, place = request.permissions.allow(Permission.USERS), group_address(seen.group.name)
        last = seen.members[SHOWN - 1] if len(seen.members) > SHOWN else None
        page = GroupPage(
            name=seen.group.name,
            description=seen.group.description,
            since=When(seen.group.created_at, now),
            parent=group_link(seen.group.parent) if seen.group.parent else None,
            subgroups=tuple(group_link(each.name) for each in seen.subgroups),
            apps=tuple(
                Link(name or client_id, client_address(client_id)) for client_id, name in seen.apps
            ),
            apis=tuple(Link(api.name, linked(self.links, API, api.id)) for api in seen.requiring),
            members=tuple(_member(each, place, now, may=may) for each in seen.members[:SHOWN]),
            ways=_BUTTONS.offers(seen.group, request.permissions, place),
            add_action=f"{place}/members" if may else "",
            new_url=with_query(NEW, {"in": seen.group.name})
            if may and not seen.group.parent
            else "",
            edit_url=f"{place}/edit" if may else "",
            api_roles=roles_part(
                seen.roles,
                seen.apis,
                seen.group.name,
                f"{place}/api-roles" if may else "",
                self.links,
            ),
            paging=pages_beside(
                place,
                {},
                request.query,
                str(last.uid) if last else "",
                total=at_most(seen.count, _MOST_COUNTED),
            ),
            done=done,
            person=person,
            unknown=wrong and not meant and not fault,
            several=tuple(line_of(user, now) for user in meant),
            fault=fault,
        )
        return Show(page, _BAD_REQUEST if wrong else 200)


def _named(request: AdminRequest) -> str:
    name = request.arguments["group"]
    if not name.isascii() or not name.isprintable() or len(name) > _LONGEST:
        raise no_such_group()
    return name


def _member(member: GroupMember, place: str, now: Instant, *, may: bool) -> MemberLine:
    return MemberLine(
        name=member.name,
        username=member.username,
        url=user_address(Uid(member.uid)),
        since=When(member.since, now),
        remove_url=with_query(f"{place}/remove", {"uid": str(member.uid)}) if may else "",
    )
