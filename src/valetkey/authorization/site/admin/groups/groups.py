"""/admin/groups: list groups by name, and create one."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.operations.groups.groups import CREATE_GROUP, LIST_GROUPS
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.operations.user_records import GroupList, GroupShown, GroupWanted
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    administrator,
    with_query,
)
from valetkey.authorization.site.admin.input_form import (
    Faults,
    InputFormPage,
    Words,
    input_fields,
    read_input,
    typed,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.kernel.words import translatable

GROUPS = "/admin/groups"
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
_BAD_REQUEST = 400
_LONGEST_NAME = 80


class GroupRow(Struct, frozen=True):
    """One group in the list."""

    name: str
    description: str
    parent: str
    url: str


class Link(Struct, frozen=True):
    """A name that leads to its page."""

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
    more: str = ""
    first: str = ""
    deleted: bool = False


class Groups(Struct, frozen=True):
    """The list, and the form for another group."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """The list and the form."""
        return (
            Page(GROUPS, administrator(), self.show, title=translatable("Groups"), nav=PEOPLE),
            Page(
                NEW,
                administrator(Permission.PEOPLE),
                self.ask,
                Act(self.create),
                title=translatable("New group"),
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """A page of those whose names begin with the text."""
        query = request.query
        text, after = _name(query.get("q")), _name(query.get("after"))
        asked = {"prefix": text, "after": after}
        call = call_of(self.services, LIST_GROUPS, request.actor, request.now, query=asked)
        found = await value_of(call, GroupList)
        page = GroupsPage(
            action=GROUPS,
            text=text,
            listed=tuple(_row(each) for each in found.items),
            new_url=NEW if request.powers.allow(Permission.PEOPLE) else "",
            more=with_query(GROUPS, {"q": text, "after": found.next}) if found.next else "",
            first=with_query(GROUPS, {"q": text}) if after else "",
            deleted="deleted" in query,
        )
        return Show(page)

    async def ask(self, request: AdminRequest) -> Outcome:
        """Show the form for a new group, with `in` as its parent group."""
        return _form(request, {"parent": _name(request.query.get("in"))})

    async def create(self, request: AdminRequest) -> Outcome:
        """Create it."""
        try:
            wanted = read_input(GroupWanted, WORDS, request.form)
            call = call_of(self.services, CREATE_GROUP, request.actor, request.now, body=wanted)
            made = await value_of(call, GroupShown)
        except InvalidInput as invalid:
            return _form(request, typed(request.form, WORDS), invalid.faults)
        return SeeOther(f"{group_address(made.name)}?done=new")


def group_address(name: str, act: str = "") -> str:
    """The page about this group, or about one operation on it."""
    place = f"{GROUPS}/{quote(name, safe='')}"
    return f"{place}/{act}" if act else place


def group_link(name: str) -> Link:
    """The name of this group, leading to its page."""
    return Link(name, group_address(name))


def _name(text: str | None) -> str:
    return (text or "").strip()[:_LONGEST_NAME]


def _row(group: GroupShown) -> GroupRow:
    return GroupRow(group.name, group.description, group.parent, group_address(group.name))


def _form(request: AdminRequest, values: Mapping[str, str], faults: Faults = ()) -> Outcome:
    page = InputFormPage(
        action=NEW,
        back=GROUPS,
        above=translatable("Groups"),
        csrf=request.csrf,
        title=translatable("New group"),
        submit=translatable("Create group"),
        fields=input_fields(GroupWanted, WORDS, values, faults),
    )
    return Show(page, _BAD_REQUEST if faults else 200)
