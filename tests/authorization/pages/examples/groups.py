"""One example of every page of administration about groups, and those hardest to lay out."""

from collections.abc import Mapping

from tests.authorization.pages.examples.account import HEADINGS
from valetkey.authorization.actions.admin.permissions import permissions_of
from valetkey.authorization.layout.contexts import AskingApp, When
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.groups import DELETE_GROUP, REMOVE_GROUP_MEMBER
from valetkey.authorization.site.admin.confirm import ConfirmPage, Impact, Offer
from valetkey.authorization.site.admin.groups.groups import LIST, SELECTED_GROUPS
from valetkey.authorization.site.admin.object_page import (
    Adder,
    Fact,
    ObjectPage,
    RecentEvents,
    Related,
)
from valetkey.authorization.site.admin.objects import (
    Choice,
    Line,
    LineButton,
    ObjectList,
    Part,
    Row,
    badge,
    code,
    exact,
    since,
    text,
    words,
)
from valetkey.authorization.site.page import Figure, Paging
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_NOW = Instant(1_800_000_000)
_PLACE = "/admin/groups/staff"


def _ago(seconds: int) -> When:
    return When(Instant(_NOW - seconds), _NOW)


_REMOVE = LineButton(f"{_PLACE}/remove?uid=1001", "Remove", "Remove %(name)s", "ada")
_POSTS = LineButton(
    f"{_PLACE}/api-roles", "Remove", "Remove the role %(name)s", "a: b", (("role", "a b"),)
)
OBJECT = ObjectPage(
    "/admin/groups",
    "Groups",
    "staff",
    state=(badge("Disabled", "alarm"), badge("Verified", "good"), badge("Member", "note")),
    notes=(words("by the group %(name)s", name="staff"), Part("words", "Saved.", tone="alarm")),
    description="Everybody who works here",
    figures=(("Members", 1_204),),
    facts=(
        Fact("Client ID", (Part("copy", "app_7f3k9qxmB2", small="client-id"),)),
        Fact("Runs", (words("On a server, with a secret or key", "confidential"),)),
        Fact("Lasts", (Part("duration", count=3_600),)),
        Fact("Members", (Part("number", count=1_204),)),
        Fact("Redirect URIs", (code("https://app.example/callback"), code("x" * 120))),
        Fact("Scopes", ()),
        Fact("Since", (since(_ago(90_000)),)),
        Fact("Department", (text("R&D"),), own=True),
    ),
    details=(Fact("Contacts", (code("ada@example.com"),)),),
    links=(("edit", "Edit group", f"{_PLACE}/edit"),),
    actions=(
        Offer("verify", "Mark as verified", f"{_PLACE}/verify"),
        Offer("delete", "Delete group", f"{_PLACE}/delete", danger=True, text="It is gone."),
    ),
    related=(
        Related(
            "members",
            "Members",
            (
                Line(
                    text("Ada Lovelace", "/admin/users/1001"),
                    (badge("Owner"),),
                    (text("ada"), since(_ago(60), "Since", "203.0.113.7")),
                    _REMOVE,
                ),
                Line(
                    code("cs_9aBc"), below=(exact(_ago(-86_400), "Ends %(moment)s."),), act=_POSTS
                ),
            ),
            hint="Apps see the change in the next token.",
            adder=Adder(f"{_PLACE}/members", "add", "person", "Add a user", "A username."),
            paging=Paging(_PLACE, _PLACE, f"{_PLACE}?after=1003", Figure(120)),
            more_url="/admin/users",
            more_title="Show all users",
        ),
        Related(
            "apps",
            "Apps",
            (),
            "No app is limited to this group.",
            adder=Adder(
                f"{_PLACE}/apps",
                "give",
                "client",
                "Give access to an app",
                options=(("web", "Notes"),),
                fields=(("do", "add"),),
                warning="All users can sign in to the app.",
            ),
            add_url="/admin/clients/new",
            add_title="Register an app",
        ),
    ),
    activity=RecentEvents((), "/admin/events"),
)


def groups_examples(
    long: AskingApp, rtl: AskingApp, hostile: AskingApp
) -> Mapping[str, PageContext]:
    """All of them."""
    rows = (
        Row("engineering", "engineering", "/admin/groups/engineering", ((text("staff"),), ())),
        Row("staff", "staff", _PLACE, ((), (since(_ago(90_000)),)), (text("Who works here"),)),
    )
    page = ObjectList(
        LIST.address,
        LIST.words,
        rows,
        tuple((title, HEADINGS["name"] if orders else None) for title, orders in LIST.columns),
        longest=LIST.longest,
        filters=(Choice("sort", "Sort by", LIST.orders),),
        chosen={"sort": ""},
        new_url="/admin/groups/new",
        field="group",
        actions=SELECTED_GROUPS.offers(permissions_of(Role.OWNER)),
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
        fault="this group contains groups; delete or move them first",
        confirms="staff",
    )
    other = Adder(
        f"{_PLACE}/members",
        "add",
        "person",
        "Add a user",
        value=hostile.name,
        fault="Several users match.",
        candidates=(Line(text(long.name, "/admin/users/1001"), below=(text(rtl.name),)),),
    )
    return {
        "admin_groups": page,
        "admin_groups_none": replace(page, rows=(), done="Group deleted."),
        "admin_groups_nothing_found": replace(page, rows=(), text="zzz"),
        "admin_groups_hostile": replace(
            page,
            text=hostile.name,
            rows=(
                Row("x" * 80, "x" * 80, _PLACE, ((text("y" * 80),), ()), (text(hostile.name),)),
                Row('"l', hostile.name, _PLACE, ((), ()), (text(long.name),)),
                Row("r", rtl.name, _PLACE, ((), ())),
            ),
            chosen={"sort": "-name"},
            paging=Paging("/admin/groups", "/admin/groups", "/admin/groups?after=x", Figure(120)),
            links=(("import", "Import users", "/admin/users/import"),),
        ),
        "admin_groups_filtered": replace(
            page, rows=(), text="zzz", paging=Paging(next="/admin/groups?q=zzz&after=1.x")
        ),
        "admin_object": OBJECT,
        "admin_object_bare": ObjectPage("/admin/groups", "Groups", "staff"),
        "admin_object_hostile": replace(
            OBJECT,
            name=hostile.name,
            description=long.name,
            done="Saved.",
            notes=(words("by the group %(name)s", name=hostile.name),),
            facts=(
                Fact(hostile.name, (text(hostile.name),), own=True),
                Fact("Client ID", (Part("copy", "web", small="client-id"),)),
                Fact("Scopes", (code(hostile.name), text(rtl.name), text(long.name))),
            ),
            related=(
                Related(
                    "members",
                    "Members",
                    (
                        Line(
                            text(hostile.name, "/admin/users/1001"),
                            below=(text(rtl.name),),
                            act=replace(_POSTS, name=hostile.name),
                        ),
                        Line(text(long.name), act=replace(_REMOVE, name=hostile.name)),
                    ),
                    adder=other,
                ),
            ),
        ),
        "admin_group_delete": ask,
        "admin_group_remove": replace(
            ask,
            title=remove.title,
            text=remove.text,
            facts=("Ada Lovelace", "ada", "user ID 1001"),
            ends=None,
            fault="",
            confirms="",
            hidden=(("uid", "1001"),),
        ),
    }
