"""/admin/groups: list groups by name, create one, and edit one."""

from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.operations.groups.groups import (
    CHANGE_GROUP,
    CREATE_GROUP,
    LIST_GROUPS,
    READ_GROUP,
)
from valetkey.authorization.operations.operation import Services, call_of, value_of
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.operations.user_records import (
    GroupList,
    GroupShown,
)
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    actor_of,
    administrator,
)
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.paging import ONE_PAGE, Paging, at_most, pages_beside
from valetkey.kernel.words import translatable

GROUPS = ADDRESSES["admin_groups"]
NEW = "/admin/groups/new"

WORDS: Words = {
    "name": (
        translatable("Name"),
        translatable("Apps receive this name. Letters, digits, dots, hyphens and underscores."),
    ),
    "description": (translatable("Description"), translatable("What the group is for.")),
    "parent": (
        translatable("Parent group"),
        translatable(
            "Members of the new group are members of this group too. Leave empty for none."
        ),
    ),
}
_TITLE = translatable("Groups")
_LONGEST_NAME = 80

MOST_COUNTED = 1_000
"""Groups that are counted for the total."""


class GroupRow(Struct, frozen=True):
    """One group in the list."""

    name: str
    description: str
    parent: str
    url: str


class Link(Struct, frozen=True):
    """A name with the URL of its page."""

    name: str
    url: str


class GroupsPage(Struct, frozen=True):
    """A page of the groups; the form uses GET with `q`."""

    template: ClassVar[str] = "admin/groups/groups.html"

    action: str
    text: str
    listed: tuple[GroupRow, ...]
    #: "" where the role may not.
    new_url: str
    paging: Paging = ONE_PAGE
    deleted: bool = False


class Groups(Struct, frozen=True):
    """List groups; create one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the form."""
        return (
            Page(
                GROUPS,
                administrator(),
                self.show,
                title=_TITLE,
                nav=PEOPLE,
                docs="how-to/people/groups.html",
            ),
            InputForm(
                NEW,
                administrator(Permission.USERS),
                actor_of,
                self.services,
                CREATE_GROUP,
                GroupShown,
                WORDS,
                translatable("New group"),
                self._new,
                self._made,
                submit=translatable("Create group"),
            ).page(),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the groups with the text in their name or description."""
        query = request.query
        text, after = _name(query.get("q")), _name(query.get("after"))
        asked = {"q": text, "after": after}
        call = call_of(self.services, LIST_GROUPS, request.actor, request.now, query=asked)
        found = await value_of(call, GroupList)
        count = await self.services.store.scan(
            lambda tx: len(tx.groups.list("", MOST_COUNTED + 1, part=text))
        )
        page = GroupsPage(
            action=GROUPS,
            text=text,
            listed=tuple(_row(each) for each in found.items),
            new_url=NEW if request.permissions.allow(Permission.USERS) else "",
            paging=pages_beside(
                GROUPS,
                {"q": text},
                query,
                found.next or "",
                total=at_most(count, MOST_COUNTED),
            ),
            deleted="deleted" in query,
        )
        return Show(page)

    async def _new(self, request: AdminRequest) -> FormSubject:
        return FormSubject(GROUPS, _TITLE, {"parent": _name(request.query.get("in"))})

    async def _made(self, _request: AdminRequest, made: GroupShown) -> Outcome:
        return SeeOther(f"{group_address(made.name)}?done=new")


def group_address(name: str) -> str:
    """Return the URL of the page about a group."""
    return f"{GROUPS}/{quote(name, safe='')}"


def group_link(name: str) -> Link:
    """Return a link to the page of a group."""
    return Link(name, group_address(name))


def _name(text: str | None) -> str:
    return (text or "").strip()[:_LONGEST_NAME]


def _row(group: GroupShown) -> GroupRow:
    return GroupRow(group.name, group.description, group.parent, group_address(group.name))


EDIT = "/admin/groups/{group}/edit"

_WORDS = {
    **WORDS,
    "name": (
        WORDS["name"][0],
        translatable(
            "Apps receive the new name in the next token, and apps that require the group require"
            " its new name. Claims that choose groups by a prefix are not changed."
        ),
    ),
    "parent": (
        WORDS["parent"][0],
        translatable("Members of this group are members of that group too. Leave empty for none."),
    ),
}


class GroupForm(Struct, frozen=True):
    """Show and handle the form that edits a group."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The form."""
        return (
            InputForm(
                EDIT,
                administrator(Permission.USERS),
                actor_of,
                self.services,
                CHANGE_GROUP,
                GroupShown,
                _WORDS,
                translatable("Edit group"),
                self._edited,
                self._changed,
                conflicts="name",
            ).page(),
        )

    async def _edited(self, request: AdminRequest) -> FormSubject:
        path = {"group": request.arguments["group"]}
        call = call_of(self.services, READ_GROUP, request.actor, request.now, path)
        group = await value_of(call, GroupShown)
        values = {name: as_text(getattr(group, name)) for name in _WORDS}
        return FormSubject(group_address(group.name), group.name, values, tag_of(group))

    async def _changed(self, _request: AdminRequest, group: GroupShown) -> Outcome:
        return SeeOther(f"{group_address(group.name)}?done=edit")
