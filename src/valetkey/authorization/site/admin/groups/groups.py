"""/admin/groups: list groups by name, create one, and edit one."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.groups.groups import (
    CHANGE_GROUP,
    CREATE_GROUP,
    LIST_GROUPS,
    ONE,
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
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.saved_filters import (
    NOTHING_SAVED,
    SavedPart,
    saved_part,
)
from valetkey.authorization.site.admin.selected import SelectedEntry, Selection
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.site.paging import (
    ONE_PAGE,
    TIME,
    Heading,
    Paging,
    at_most,
    pages_beside,
    sort_headings,
)
from valetkey.authorization.storage.search import ListOrder, order_in
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
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
_SORTS = {
    "name": (ListOrder.NAME.value, ListOrder.NAME_DESCENDING.value),
    TIME: (ListOrder.OLDEST.value, ListOrder.NEWEST.value),
}

MOST_COUNTED = 10_000
"""Groups that are counted for the total."""


class GroupRow(Struct, frozen=True):
    """One group in the list."""

    name: str
    description: str
    parent: str
    since: When
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
    headings: dict[str, Heading]
    #: "" where the role may not.
    new_url: str
    paging: Paging = ONE_PAGE
    saved: SavedPart = NOTHING_SAVED
    deleted: bool = False
    #: Title and address of what can be done with the selected groups.
    ways: tuple[tuple[str, str], ...] = ()


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
        order = order_in(query.get("sort"), ListOrder.NAME)
        said = {"q": text, "sort": "" if order is ListOrder.NAME else order.value}
        asked = {"q": text, "cursor": after, "sort": order.value}
        call = call_of(self.services, LIST_GROUPS, request.actor, request.now, query=asked)
        found = await value_of(call, GroupList)
        count, saved = await self.services.store.scan(
            lambda tx: (
                tx.groups.count(text, MOST_COUNTED + 1),
                saved_part(tx, request, "groups", said),
            )
        )
        page = GroupsPage(
            action=GROUPS,
            text=text,
            listed=tuple(_row(each, request.now) for each in found.items),
            headings=sort_headings(GROUPS, said, order, _SORTS),
            new_url=NEW if request.permissions.allow(Permission.USERS) else "",
            paging=pages_beside(
                GROUPS,
                said,
                query,
                found.next or "",
                total=at_most(count, MOST_COUNTED),
            ),
            saved=saved,
            deleted="deleted" in query,
            ways=SELECTED_GROUPS.offers(request.permissions),
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


def _row(group: GroupShown, now: Instant) -> GroupRow:
    since = When(Instant(group.created_at), now)
    return GroupRow(group.name, group.description, group.parent, since, group_address(group.name))


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    named = (tx.groups.find(value) for value in values if value.isascii())
    found = [group for group in named if group is not None]
    # Groups in others first: a group that contains groups is not deleted.
    found.sort(key=lambda group: not group.parent)
    return [
        SelectedEntry(each.name, each.name, group_address(each.name), each.description)
        for each in found
    ]


SELECTED_GROUPS = Selection(
    # A group can be called "selected".
    "/admin/selected-groups",
    GROUPS,
    _TITLE,
    "group",
    "group",
    Buttons.below(ONE, ("delete",)),
    _selected,
)
"""What is offered for several groups at once."""


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
