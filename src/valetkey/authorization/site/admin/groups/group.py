"""/admin/groups/{group}: one group, its members, and the operations on it."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.admin.search import resolve_users, search
from valetkey.authorization.actions.groups import CONTAINS_GROUPS
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.user import Group, GroupMember, Uid, User, uid_of
from valetkey.authorization.operations.client_state import ADD_GROUP
from valetkey.authorization.operations.groups import (
    ADD_GROUP_MEMBER,
    DELETE_GROUP,
    REMOVE_GROUP_MEMBER,
    no_such_group,
)
from valetkey.authorization.operations.operation import (
    ObjectLink,
    Services,
    call_of,
    linked,
    place_in,
)
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.api_roles import (
    API,
    MOST_SHOWN,
    declared_roles,
    roles_part,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Impact,
    Subject,
    confirmation,
    done_word,
)
from valetkey.authorization.site.admin.groups.groups import (
    GROUPS,
    NEW,
    group_address,
)
from valetkey.authorization.site.admin.object_page import (
    Adder,
    ObjectPage,
    RecentEvents,
    Related,
    activity_about,
    facts,
)
from valetkey.authorization.site.admin.objects import (
    Line,
    LineButton,
    Part,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.references import Named, users_offered
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act as PageAct
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show, at_most, pages_beside
from valetkey.authorization.storage.apis import ApiWithRoles, AssignedRole
from valetkey.authorization.storage.search import ClientFilter, ListOrder
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name
from valetkey.web.body import Form

GROUP = "/admin/groups/{group}"
MEMBERS = "/admin/groups/{group}/members"
APPS = "/admin/groups/{group}/apps"
ACT = "/admin/groups/{group}/{act}"

SHOWN = 50
"""Maximum number of members on a page."""

_SUBGROUPS = 200
_MOST_APIS = 200
_OFFERED = 100
_BUTTONS = Buttons.below("/groups/{group}")
_DONE = {
    "new": translatable("The group is created."),
    "edit": translatable("Saved."),
    "api-role": translatable("The role is assigned."),
    "api-role-removed": translatable("The role is removed."),
    "add": translatable("The user was added to the group."),
    "app": translatable("Members of the group can sign in to the app."),
}
_STILL_REQUIRED = translatable(
    "Apps and APIs that require the group still require it after the deletion. The members of a new"
    " group of this name would have access."
)
_UNKNOWN = translatable("User not found.")
_SEVERAL = translatable("Several users match. Enter the user ID of one of them.")
_LONGEST = 200
_MOST_COUNTED = 100_000
_BAD_REQUEST = 400


class _Typed(Struct, frozen=True):
    """What was typed to add a member, and why it was not done."""

    person: str = ""
    meant: Sequence[User] = ()
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
    #: Ids and names of apps that can be given to the group; one more than are offered if many are.
    others: Sequence[tuple[str, str]]
    activity: RecentEvents
    #: Usernames that the form for a member offers.
    users: tuple[Named, ...]


class GroupPages(Struct, frozen=True):
    """Show one group, change its members, and run operations on it."""

    services: Services
    links: Sequence[ObjectLink]

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the group, the form for another member, and the confirmation of operations."""
        add = PageAct(self.add, opaque=("person",))
        return (
            Page(GROUP, administrator(), self.show),
            Page(MEMBERS, administrator(Permission.USERS), act=add),
            Page(APPS, administrator(Permission.CLIENTS), act=PageAct(self.give_app)),
            confirmation(ACT, _BUTTONS, self.services, self._subject, self._finish),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the group and a page of its members."""
        return await self._page(request)

    async def add(self, request: AdminRequest) -> Outcome:
        """Add the user that the text means; list the candidates if it is ambiguous."""
        actor, typed = request.actor, (request.form.get("person") or "").strip()[:_LONGEST]

        def find_users(tx: Transaction) -> Sequence[User]:
            require(tx, actor, Permission.USERS)
            return resolve_users(tx, typed)

        meant = await self.services.store.read(find_users)
        if len(meant) != 1:
            fault = _SEVERAL if meant else _UNKNOWN
            return await self._page(request, typed=_Typed(typed, meant, fault))
        path = {"group": request.arguments["group"], "uid": str(meant[0].uid)}
        call = call_of(self.services, ADD_GROUP_MEMBER, actor, request.now, path)
        try:
            result = await ADD_GROUP_MEMBER.run(call)
        except Refused as refused:
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            refusal = _Typed(typed, fault=refused.refusal.text)
            return await self._page(request, typed=refusal)
        done = done_word("add", result.value)
        return SeeOther(f"{group_address(_named(request))}?done={done}")

    async def _finish(
        self, request: AdminRequest, confirmed: Confirmed, _result: object
    ) -> Outcome:
        if confirmed.operation is DELETE_GROUP:
            return SeeOther(f"{GROUPS}?deleted=1")
        return SeeOther(f"{group_address(_named(request))}?done={confirmed.button.slug}")

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        name, actor = _named(request), request.actor
        uid = uid_of(form.get("uid") or "")

        def read_state(tx: Transaction) -> tuple[Group, User | None, Impact, bool]:
            require(tx, actor, Permission.READ)
            group = tx.groups.find(name)
            if group is None:
                raise no_such_group()
            user = None if uid is None else tx.users.find(uid)
            members = tx.groups.size(group, _MOST_COUNTED)
            apps = tx.client_search.requiring_group(group.name)
            apis = tx.apis.requiring_group(group.name, _MOST_APIS)
            ends = Impact(
                members=members,
                closed_apps=len(apps),
                closed_apis=len(apis),
                closed_app_names=tuple(
                    (shown or client_id, client_address(client_id))
                    for client_id, shown in apps[:_OFFERED]
                ),
            )
            return group, user, ends, tx.groups.has_groups(group)

        group, user, ends, has_groups = await self.services.store.scan(read_state)
        facts: tuple[str, ...] = (group.description,) if group.description else ()
        if confirmed.operation is REMOVE_GROUP_MEMBER:
            if user is None:
                raise page_not_found()
            facts = (user.name or user.username, user.username, f"user ID {user.uid}")
        refused = has_groups and confirmed.operation is DELETE_GROUP
        leaves = confirmed.operation is DELETE_GROUP and (ends.closed_apps or ends.closed_apis)
        return Subject(
            group_address(group.name),
            group.name,
            facts,
            ends,
            consequences=(_STILL_REQUIRED,) if leaves and not refused else (),
            refused=CONTAINS_GROUPS if refused else "",
        )

    async def give_app(self, request: AdminRequest) -> Outcome:
        """Give the group access to an app."""
        name = _named(request)
        client_id = (request.form.get("client") or "").strip()[:_LONGEST]
        path = {"client_id": path_segment(client_id), "group": path_segment(name)}
        call = call_of(self.services, ADD_GROUP, request.actor, request.now, path)
        try:
            result = await ADD_GROUP.run(call)
        except Refused as refused:
            if refused.refusal.check != "admin.client":
                raise
            return SeeOther(f"{group_address(name)}?done=no-app#list-apps")
        return SeeOther(f"{group_address(name)}?done={done_word('app', result.value)}")

    async def _page(self, request: AdminRequest, typed: _Typed | None = None) -> Outcome:
        name, actor, now = _named(request), request.actor, request.now
        after = uid_of(request.query.get("after") or "") or 0

        def read_state(tx: Transaction) -> _GroupState:
            require(tx, actor, Permission.READ)
            group = tx.groups.find(name)
            if group is None:
                raise no_such_group()
            apps = tx.client_search.requiring_group(group.name)
            return _GroupState(
                group,
                tx.groups.members(group, after, SHOWN + 1),
                tx.groups.size(group, _MOST_COUNTED + 1),
                tx.groups.subgroups(group, _SUBGROUPS),
                apps,
                tx.apis.requiring_group(group.name, _MOST_APIS),
                tx.api_roles.of_group(group, MOST_SHOWN),
                declared_roles(tx),
                _other_apps(tx, actor, {client_id for client_id, _ in apps}),
                activity_about(tx, f"group:{group.id}", now, self.services.kinds),
                users_offered(tx) if _may(request, Permission.USERS) else (),
            )

        seen = await self.services.store.scan(read_state)
        address, done = group_address(seen.group.name), request.query.get("done") or ""
        page = ObjectPage(
            GROUPS,
            translatable("Groups"),
            seen.group.name,
            description=seen.group.description,
            done="" if typed else _BUTTONS.done(done, _DONE),
            figures=((translatable("Members"), min(seen.count, _MOST_COUNTED)),),
            facts=facts(
                (
                    (translatable("Parent group"), _parent(seen.group)),
                    (translatable("Created"), since(When(seen.group.created_at, now))),
                )
            ),
            links=_links(seen.group, address) if _may(request, Permission.USERS) else (),
            actions=_BUTTONS.offers(seen.group, request.permissions, address),
            related=(
                _members(seen, request, address, typed or _Typed()),
                _apps(seen, address, done, may=_may(request, Permission.CLIENTS)),
                *_below(seen, address, self.links, may=_may(request, Permission.USERS)),
            ),
            activity=seen.activity,
        )
        return Show(page, 200 if typed is None else _BAD_REQUEST)


def _may(request: AdminRequest, permission: Permission) -> bool:
    return request.permissions.allow(permission)


def _parent(group: Group) -> Part | None:
    return text(group.parent, group_address(group.parent)) if group.parent else None


def _links(group: Group, address: str) -> tuple[tuple[str, str, str], ...]:
    edit = ("edit", translatable("Edit group"), f"{address}/edit")
    if group.parent:
        return (edit,)
    return (edit, ("new", translatable("New subgroup"), with_query(NEW, {"in": group.name})))


def _members(seen: _GroupState, request: AdminRequest, address: str, typed: _Typed) -> Related:
    may = _may(request, Permission.USERS)
    last = seen.members[SHOWN - 1] if len(seen.members) > SHOWN else None
    adder = Adder(
        f"{address}/members",
        "add",
        "person",
        translatable("Add a user"),
        translatable("A username, email address or user ID."),
        value=typed.person,
        fault=typed.fault,
        offered=seen.users,
        candidates=tuple(
            Line(
                text(user.username, user_address(user.uid)),
                below=(
                    text(user.email),
                    words(translatable("User ID %(uid)s"), uid=str(user.uid)),
                ),
            )
            for user in typed.meant
        ),
    )
    return Related(
        "members",
        translatable("Members"),
        tuple(_member(member, address, request.now, may=may) for member in seen.members[:SHOWN]),
        translatable("No direct members. Members of its subgroups are members too.")
        if seen.subgroups
        else translatable("No members."),
        adder=adder if may else None,
        paging=pages_beside(
            address,
            {},
            request.query,
            str(last.uid) if last else "",
            total=at_most(seen.count, _MOST_COUNTED),
        ),
    )


def _apps(seen: _GroupState, address: str, typed: str, *, may: bool) -> Related:
    name = seen.group.name
    many = len(seen.others) > _OFFERED
    adder = Adder(
        f"{address}/apps",
        "give",
        "client",
        translatable("Give access to an app"),
        translatable("The client ID of an app.") if many else "",
        () if many else tuple((client_id, shown or client_id) for client_id, shown in seen.others),
        fault=translatable("This app does not exist.") if typed == "no-app" else "",
        warning=translatable(
            "From then on, only members of the groups that have access can sign in to the app."
        ),
    )
    return Related(
        "apps",
        translatable("Apps"),
        tuple(
            Line(
                text(shown or client_id, client_address(client_id)),
                act=LineButton(
                    with_query(client_address(client_id, "remove-group"), {"group": name}),
                    translatable("Remove"),
                    translatable("Remove %(name)s"),
                    shown or client_id,
                )
                if may
                else None,
            )
            for client_id, shown in seen.apps
        ),
        translatable("No app is limited to this group. Its members use apps that are open to all."),
        adder=adder if may and seen.others else None,
    )


def _below(
    seen: _GroupState, address: str, links: Sequence[ObjectLink], *, may: bool
) -> Iterator[Related]:
    """Return what is listed only where there is any."""
    if seen.subgroups:
        yield Related(
            "subgroups",
            translatable("Subgroups"),
            tuple(
                Line(text(subgroup.name, group_address(subgroup.name)))
                for subgroup in seen.subgroups
            ),
        )
    if seen.requiring:
        yield Related(
            "apis",
            translatable("APIs that require it"),
            tuple(Line(text(api.name, linked(links, API, api.id))) for api in seen.requiring),
        )
    roles = roles_part(
        seen.roles,
        seen.apis,
        seen.group.name,
        f"{address}/api-roles" if may else "",
        links,
    )
    if roles is not None:
        yield roles


def _other_apps(tx: Transaction, actor: Actor, had: set[str]) -> Sequence[tuple[str, str]]:
    result = search(tx, actor, ClientFilter(), place_in(None), _OFFERED + 1, ListOrder.NAME)
    return [(line.id, line.name) for line in result.lines if line.id not in had]


def _named(request: AdminRequest) -> str:
    name = segment_name(request.arguments["group"])
    if not name or len(name) > _LONGEST:
        raise no_such_group()
    return name


def _member(member: GroupMember, address: str, now: Instant, *, may: bool) -> Line:
    return Line(
        text(member.name or member.username, user_address(Uid(member.uid))),
        below=(text(member.username), since(When(member.since, now), translatable("Since"))),
        act=LineButton(
            with_query(f"{address}/remove", {"uid": str(member.uid)}),
            translatable("Remove"),
            translatable("Remove %(name)s"),
            member.username,
        )
        if may
        else None,
    )
