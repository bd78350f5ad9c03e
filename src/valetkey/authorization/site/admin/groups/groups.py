"""/admin/groups: list groups by name, create one, and edit one."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.groups import (
    CHANGE_GROUP,
    CREATE_GROUP,
    LIST_GROUPS,
    ONE,
    READ_GROUP,
)
from valetkey.authorization.operations.operation import Services, call_of, tag_of, value_of
from valetkey.authorization.operations.user_records import (
    GroupList,
    GroupShown,
)
from valetkey.authorization.site.admin import references
from valetkey.authorization.site.admin.administrator import (
    PEOPLE,
    AdminRequest,
    actor_of,
    administrator,
)
from valetkey.authorization.site.admin.confirm import Buttons
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.objects import (
    BY_NAME,
    BY_NAME_DESCENDING,
    NAMES,
    NEWEST_FIRST,
    OLDEST_FIRST,
    TIMES,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    since,
    text,
    words,
)
from valetkey.authorization.site.admin.selected import SelectedEntry, Selection
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment

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
_REFERENCES = {"parent": references.GROUPS}
_TITLE = translatable("Groups")
_GONE = translatable(
    "This group does not exist. The members of a new group of this name would have access."
)
_LONGEST_NAME = 80

MOST_COUNTED = 10_000
"""Groups that are counted for the total."""


class GroupListPages(Struct, frozen=True):
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
                references=_REFERENCES,
            ).page(),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a page of the groups with the text in their name or description."""
        list_query = LIST.read(request)
        query = {"q": list_query.text, "cursor": _name(list_query.after), "sort": list_query.order}
        call = call_of(self.services, LIST_GROUPS, request.actor, request.now, query=query)
        group_list = await value_of(call, GroupList)
        count, saved = await self.services.store.scan(
            lambda tx: (
                tx.groups.count(list_query.text, MOST_COUNTED + 1),
                LIST.saved(tx, request, list_query),
            )
        )
        rows = [_row(group, request.now) for group in group_list.items]
        done = translatable("Group deleted.") if "deleted" in list_query.query else ""
        return Show(
            LIST.page(
                request, list_query, rows, group_list.next or "", count, saved=saved, done=done
            )
        )

    async def _new(self, request: AdminRequest) -> FormSubject:
        return FormSubject(GROUPS, _TITLE, values={"parent": _name(request.query.get("in"))})

    async def _made(self, _request: AdminRequest, made: GroupShown) -> Outcome:
        return SeeOther(f"{group_address(made.name)}?done=new")


def group_address(name: str) -> str:
    """Return the URL of the page about a group."""
    return f"{GROUPS}/{path_segment(name)}"


def required_group(name: str, *, exists: bool) -> tuple[Part, ...]:
    """Return what an app or API shows of a group that it requires: its name, and if it is gone."""
    return (text(name, group_address(name)),) if exists else (text(name), words(_GONE))


def _name(text: str | None) -> str:
    return (text or "").strip()[:_LONGEST_NAME]


def _row(group: GroupShown, now: Instant) -> Row:
    parent = (text(group.parent, group_address(group.parent)),) if group.parent else ()
    return Row(
        group.name,
        group.name,
        group_address(group.name),
        (parent, (since(When(Instant(group.created_at), now)),)),
        (text(group.description),) if group.description else (),
    )


def _selected(tx: Transaction, values: Sequence[str]) -> Sequence[SelectedEntry]:
    named = (tx.groups.find(value) for value in values if value.isascii())
    groups = [group for group in named if group is not None]
    # Groups in others first: a group that contains groups is not deleted.
    groups.sort(key=lambda group: not group.parent)
    return [
        SelectedEntry(group.name, group.name, group_address(group.name), group.description)
        for group in groups
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

LIST = ListDeclaration(
    GROUPS,
    ListWords(
        caption=_TITLE,
        new=translatable("New group"),
        none_found=translatable("No group found"),
        show_all=translatable("Show all groups"),
        empty_title=translatable("No groups yet"),
        empty_text=translatable(
            "Apps receive a user's groups with the scope groups, and can be limited to the members"
            " of a group."
        ),
        selected=translatable("Selected groups:"),
        search_hint=translatable("Part of the name or of the description."),
    ),
    (
        (translatable("Group"), NAMES),
        (translatable("Parent group"), None),
        (translatable("Since"), TIMES),
    ),
    "groups",
    _LONGEST_NAME,
    orders=(BY_NAME, BY_NAME_DESCENDING, NEWEST_FIRST, OLDEST_FIRST),
    most_counted=MOST_COUNTED,
    new_url=NEW,
    permission=Permission.USERS,
    selection=SELECTED_GROUPS,
)
"""The list of groups."""


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
                references=_REFERENCES,
            ).page(),
        )

    async def _edited(self, request: AdminRequest) -> FormSubject:
        path = {"group": request.arguments["group"]}
        call = call_of(self.services, READ_GROUP, request.actor, request.now, path)
        group = await value_of(call, GroupShown)
        values = {name: as_text(getattr(group, name)) for name in _WORDS}
        return FormSubject(group_address(group.name), group.name, values=values, etag=tag_of(group))

    async def _changed(self, _request: AdminRequest, group: GroupShown) -> Outcome:
        return SeeOther(f"{group_address(group.name)}?done=edit")
