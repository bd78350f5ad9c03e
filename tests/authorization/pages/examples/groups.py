"""One example of every page of administration about groups, and those hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import HEADINGS
from valetkey.authorization.actions.admin.permissions import permissions_of
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.groups.groups import DELETE_GROUP
from valetkey.authorization.operations.groups.members import REMOVE_GROUP_MEMBER
from valetkey.authorization.site.admin.api_roles import NO_ROLES, RoleLine, RolesPart
from valetkey.authorization.site.admin.confirm import ConfirmPage, Impact, Offer
from valetkey.authorization.site.admin.groups.group import GroupPage, MemberLine
from valetkey.authorization.site.admin.groups.groups import (
    SELECTED_GROUPS,
    GroupRow,
    GroupsPage,
    Link,
)
from valetkey.authorization.site.admin.users.users import UserLine
from valetkey.authorization.site.paging import ONE_PAGE, Figure, Paging
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_PLACE = "/admin/groups/staff"


def _ago(seconds: int) -> When:
    return When(Instant(_NOW - seconds), _NOW)


_MEMBERS = tuple(
    MemberLine(name, username, f"/admin/users/{uid}", _ago(uid * 60), f"{_PLACE}/remove?uid={uid}")
    for uid, username, name in (
        (1001, "ada", "Ada Lovelace"),
        (1002, "bob", "Bob Example"),
        (1003, "charlotte", ""),
    )
)
_PAGE = GroupPage(
    name="staff",
    description="Everybody who works here",
    since=_ago(90_000),
    parent=None,
    subgroups=tuple(Link(n, f"/admin/groups/{n}") for n in ("engineering", "support")),
    apps=(Link("Notes Printer", "/admin/clients/app_7f3k9qxmB2"),),
    apis=(Link("Calendar", "/admin/apis/api_1"),),
    members=_MEMBERS,
    ways=(Offer("delete", "Delete group", f"{_PLACE}/delete", danger=True),),
    add_action=f"{_PLACE}/members",
    new_url="/admin/groups/new?in=staff",
    edit_url="/admin/groups/staff/edit",
    api_roles=RolesPart(
        (RoleLine("editor", "Calendar", "/admin/apis/api_1", "api_1 editor", ()),),
        (("api_1 owner", "Calendar: owner"), ("api_2 clerk", "Billing: clerk")),
        "/admin/groups/staff/api-roles",
    ),
    paging=Paging(_PLACE, _PLACE, f"{_PLACE}?after=1003", Figure(120)),
)


def groups_examples(
    long: AskingApp, rtl: AskingApp, hostile: AskingApp
) -> Mapping[str, PageContext]:
    """All of them."""
    rows = (
        GroupRow("engineering", "", "staff", _ago(60), "/admin/groups/engineering"),
        GroupRow("staff", "Everybody who works here", "", _ago(90_000), _PLACE),
    )
    page = GroupsPage(
        "/admin/groups",
        "",
        rows,
        HEADINGS,
        "/admin/groups/new",
        ways=SELECTED_GROUPS.offers(permissions_of(Role.OWNER)),
    )
    delete, remove = DELETE_GROUP.buttons[0], REMOVE_GROUP_MEMBER.buttons[0]
    ask = ConfirmPage(
        f"{_PLACE}/delete",
        _PLACE,
        delete.title,
        delete.text,
        "staff",
        ("Everybody who works here",),
        ends=Impact(members=1_204, closed_apps=1, closed_apis=1),
        danger=True,
        fault="this group contains groups; delete them first",
        confirms="staff",
    )
    person = UserLine(
        1001, "ada", "Ada", "ada@example.com", True, False, "", _ago(1), "/admin/users/1001"
    )
    return {
        "admin_groups": page,
        "admin_groups_none": replace(page, listed=(), deleted=True),
        "admin_groups_nothing_found": replace(page, listed=(), text="zzz"),
        "admin_groups_hostile": replace(
            page,
            text="s",
            listed=(
                GroupRow("x" * 80, hostile.name, "y" * 80, _ago(1), _PLACE),
                GroupRow("l", long.name, "", _ago(1), _PLACE),
                GroupRow("r", rtl.name, "", _ago(1), _PLACE),
            ),
            paging=Paging("/admin/groups", "/admin/groups", "/admin/groups?after=x", Figure(120)),
        ),
        "admin_group": _PAGE,
        "admin_group_several": replace(
            _PAGE, person="ada", several=(person, replace(person, uid=1002)), done=delete.done
        ),
        "admin_group_unknown": replace(_PAGE, person="eve", unknown=True),
        "admin_group_bare": replace(
            _PAGE,
            parent=Link("staff", _PLACE),
            description="",
            subgroups=(),
            apps=(),
            apis=(),
            members=(),
            ways=(),
            add_action="",
            new_url="",
            edit_url="",
            api_roles=NO_ROLES,
            paging=ONE_PAGE,
        ),
        "admin_group_hostile": replace(
            _PAGE,
            name="x" * 80,
            description=hostile.name,
            apps=(Link(hostile.name, "/admin/clients/x"),),
            apis=(Link(hostile.name, "/admin/apis/x"),),
            members=(replace(_MEMBERS[0], name=long.name), replace(_MEMBERS[1], name=rtl.name)),
            fault="a user is in 200 groups at most",
        ),
        "admin_group_delete": ask,
        "admin_group_remove": replace(
            ask,
            title=remove.title,
            text=remove.text,
            facts=("Ada Lovelace", "ada", "uid 1001"),
            ends=None,
            fault="",
            confirms="",
            hidden=(("uid", "1001"),),
        ),
    }
