"""/admin/groups: list groups by name, create one, and edit one."""

from collections.abc import Mapping
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.operations.groups.groups import (
    CHANGE_GROUP,
    CREATE_GROUP,
    LIST_GROUPS,
    READ_GROUP,
)
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.operations.user_records import (
    GroupChange,
    GroupList,
    GroupShown,
    GroupWanted,
)
from valetkey.authorization.protocol.register.client_metadata import MetadataError
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
    as_text,
    input_fields,
    read_input,
    typed,
)
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.kernel.preconditions import FAILED, preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
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
    more: str = ""
    first: str = ""
    deleted: bool = False


class Groups(Struct, frozen=True):
    """List groups; create one."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list and the form."""
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
        """Show a page of the groups whose names begin with the text."""
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
        """Create the group."""
        try:
            wanted = read_input(GroupWanted, WORDS, request.form)
            call = call_of(self.services, CREATE_GROUP, request.actor, request.now, body=wanted)
            made = await value_of(call, GroupShown)
        except InvalidInput as invalid:
            return _form(request, typed(request.form, WORDS), invalid.faults)
        return SeeOther(f"{group_address(made.name)}?done=new")


def group_address(name: str, act: str = "") -> str:
    """Return the URL of the page about a group, or about one operation on it."""
    place = f"{GROUPS}/{quote(name, safe='')}"
    return f"{place}/{act}" if act else place


def group_link(name: str) -> Link:
    """Return a link to the page of a group."""
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
        translatable("Members of this group are members of that group too. Empty: none."),
    ),
}


class GroupForm(Struct, frozen=True):
    """Show and handle the form that edits a group."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        may, title = administrator(Permission.PEOPLE), translatable("Edit group")
        return (Page(EDIT, may, self.ask, Act(self.change), title=title),)

    async def ask(self, request: AdminRequest) -> Outcome:
        """Show the form with the group's values."""
        group = await self._look(request)
        values = {name: as_text(getattr(group, name)) for name in _WORDS}
        return _edit_form(request, group, values, tag_of(group))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the group, unless it was changed since the form was shown."""
        group, form = await self._look(request), request.form
        values, tag = typed(form, _WORDS), form.get("etag") or ""
        path = {"group": request.arguments["group"]}
        try:
            body = read_input(GroupChange, _WORDS, form)
            call = call_of(self.services, CHANGE_GROUP, request.actor, request.now, path, body)
            seen = preconditions((tag or '""',), ())
            changed = await value_of(replace(call, preconditions=seen), GroupShown)
        except InvalidInput as invalid:
            return _edit_form(request, group, values, tag, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED:
                return _edit_form(request, group, values, tag_of(group), stale=True)
            if refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            fault = MetadataError("name", refused.refusal.description)
            return _edit_form(request, group, values, tag, (fault,))
        return SeeOther(f"{group_address(changed.name)}?done=edit")

    async def _look(self, request: AdminRequest) -> GroupShown:
        path = {"group": request.arguments["group"]}
        call = call_of(self.services, READ_GROUP, request.actor, request.now, path)
        return await value_of(call, GroupShown)


def _edit_form(
    request: AdminRequest,
    group: GroupShown,
    values: Mapping[str, str],
    tag: str,
    faults: Faults = (),
    *,
    stale: bool = False,
) -> Outcome:
    place = group_address(group.name)
    page = InputFormPage(
        action=f"{place}/edit",
        back=place,
        above=group.name,
        csrf=request.csrf,
        title=translatable("Edit group"),
        submit=translatable("Save changes"),
        fields=input_fields(GroupChange, _WORDS, values, faults),
        etag=tag,
        stale=stale,
    )
    return Show(page, _BAD_REQUEST if faults or stale else 200)
