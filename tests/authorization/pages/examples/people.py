"""One example of every page of administration about people, and those hardest to lay out."""

import re
from collections.abc import Mapping, Sequence

from tests.authorization.pages.examples.account import HEADINGS, ago
from tests.authorization.pages.examples.groups import OBJECT
from tests.support.conditions import CONDITIONS
from valetkey.authorization.actions.admin.permissions import permissions_of
from valetkey.authorization.actions.admin.roles import UserWithRole
from valetkey.authorization.actions.inspection.check import (
    AUDIT_LOG,
    BACKUPS,
    DATABASE,
    FAILED,
    KEYS,
    MACHINE,
    MAIL,
    NODES,
    SIGN_OUT_NOTICES,
    UNFINISHED,
    At,
    Condition,
    Finding,
    Level,
)
from valetkey.authorization.actions.inspection.inspector import PartState
from valetkey.authorization.actions.inspection.machine import DATABASE_GOOD, DISK_GOOD
from valetkey.authorization.actions.inspection.nodes import BACKUP_MADE, NODE_SEEN, NODES_RUNNING
from valetkey.authorization.actions.inspection.queues import (
    MAIL_OFF,
    NOT_EXPORTED,
    SIGN_OUT_NOTICES_GOOD,
)
from valetkey.authorization.actions.inspection.records import (
    CREDENTIAL_GOOD,
    KEYS_GOOD,
    ONE_OWNER,
    UNPROTECTED,
)
from valetkey.authorization.layout.contexts import Chart, CurrentUser, ranges
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.model.event.accounts import RoleChanged, SessionStarted
from valetkey.authorization.model.event.grants import ConsentGiven
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.operations.roles import ROLE_WORDS, ROLES
from valetkey.authorization.operations.user_access import USER_ACCESS
from valetkey.authorization.operations.users import USERS
from valetkey.authorization.site.admin.confirm import ConfirmPage, FieldShown, Impact
from valetkey.authorization.site.admin.events.lines import ActorShown, EventRow, Link
from valetkey.authorization.site.admin.object_page import RecentEvents
from valetkey.authorization.site.admin.objects import ObjectList, Row, badge, since, text
from valetkey.authorization.site.admin.overview import (
    ConsoleOverviewPage,
    PartLine,
    finding_line,
    part_line,
)
from valetkey.authorization.site.admin.selected import SelectedEntry, SelectedPage
from valetkey.authorization.site.admin.users.owner import (
    NewOwner,
    OwnerPage,
)
from valetkey.authorization.site.admin.users.roles import role_adder, roles_page
from valetkey.authorization.site.admin.users.users import LIST, UserLine
from valetkey.authorization.site.page import Figure, Paging
from valetkey.authorization.webhooks.doctor import WEBHOOKS_GOOD
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

_USER = "/admin/users/4419283746512"
ADA = UserLine(
    4_419_283_746_512,
    "ada",
    "Ada Lovelace",
    "ada@example.com",
    verified=True,
    disabled=False,
    role=ROLE_WORDS[Role.OWNER],
    since=ago(90_000_000),
    url=_USER,
)
BOB = replace(
    ADA, uid=77, username="bob", name="", email="bob@example.com", verified=False, role=""
)
LONG = replace(
    BOB,
    username="d" * 64,
    name="Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamter",
    email="c" * 64 + "@a-very-long-subdomain-of-a-very-long-name.example.com",
    disabled=True,
    role=ROLE_WORDS[Role.ADMINISTRATOR],
)
NOOR = replace(BOB, username="noor", name="نور الهدى", email="noor@example.com", verified=True)
HOSTILE = replace(
    LONG,
    username='<i>"',
    name="\u202eיתום<script>alert(1)</script>\u2069\" onload='x' {{ 7*7 }} %(name)s %s",
    email='"><script>@example.com',
)
_BUTTONS = {b.slug: b for o in (*USERS, *USER_ACCESS, *ROLES) for b in o.buttons}
_DISABLE = _BUTTONS["disable"]
_SELECTED = "/admin/users/selected/disable"
_CHOSEN = (
    SelectedEntry("1002", "Bob", "/admin/users/1002", "bob"),
    SelectedEntry(
        "1001", HOSTILE.name, "/admin/users/1001", HOSTILE.username, "this is your own account"
    ),
)
_CONFIRM_SELECTED = SelectedPage(
    _SELECTED, "/admin/users", "Users", _DISABLE.title, _DISABLE.text, "uid", _CHOSEN[:1]
)
_SELF = Link("ada", "/admin/users/77")
_EVENTS = tuple(
    EventRow(
        f"ev_{kind.name}",
        kind.name,
        ago(since),
        kind.sentence,
        {"before": "–", "after": "auditor"},
        _SELF,
        Link("Notes Printer", "/admin/clients/web1"),
        ActorShown(by, _SELF),
        (("id", f"ev_{kind.name}"), ("uid", "77")),
    )
    for kind, since, by in (
        (SessionStarted, 90, "self"),
        (RoleChanged, 9_000, "user"),
        (ConsentGiven, 90_000, "self"),
    )
)
_DAYS = [f"2026-{10 + (day + 22) // 31:02}-{(day + 22) % 31 + 1:02}" for day in range(30)]
_OWNER = permissions_of(Role.OWNER)
_NOW = Instant(1_800_000_000)
_FINDINGS = (
    finding_line(UNPROTECTED.finding(count=2), _OWNER, _NOW),
    finding_line(MAIL_OFF.finding(), _OWNER, _NOW),
    finding_line(ONE_OWNER.finding(), _OWNER, _NOW),
)
_HOURS = [f"{hour:02}:00" for hour in range(24)]


def _good(name: str, *findings: Finding) -> PartLine:
    return part_line(PartState(name, findings), _NOW)


OVERVIEW = ConsoleOverviewPage(
    Figure(1_204),
    Figure(17),
    Figure(3_411),
    sign_ins=Chart(_DAYS, [(day * 104_729) % 50 + 20 for day in range(30)]),
    failed=Chart(_DAYS, [(day * 31) % 7 for day in range(30)]),
    tokens=Chart(_DAYS, [(day * 7_919) % 230 + 100 for day in range(30)]),
    errors=Chart(_DAYS, [(day * 17) % 11 if day != 21 else 60 for day in range(30)]),
    ranges=ranges("/admin", 30, (1, 7, 30)),
    responses=Chart(_DAYS, [(day * 7_919) % 9_000 + 3_000 for day in range(30)]),
    failures=Chart(_DAYS, [3 if day == 9 else 0 for day in range(30)]),
    slowest=Chart(_DAYS, [(20, 50, 20, 10)[day % 4] for day in range(30)]),
    findings=_FINDINGS,
    states=(
        _good(DATABASE, DATABASE_GOOD.finding()),
        _good(
            NODES,
            NODES_RUNNING.finding(count=2),
            NODE_SEEN.finding(node="auth-1", version="0.2.0", at=At(Instant(_NOW - 12))),
            NODE_SEEN.finding(node="auth-2", version="0.2.0", at=At(Instant(_NOW - 75))),
        ),
        _good(BACKUPS, BACKUP_MADE.finding(size="28.4", at=At(Instant(_NOW - 10_800)))),
        _good(MACHINE, DISK_GOOD.finding(free="28.4 GiB", total="40.0 GiB", folder="/var/lib")),
        _good(
            KEYS, KEYS_GOOD.finding(algorithm="ES256", day="2026-12-02"), CREDENTIAL_GOOD.finding()
        ),
        part_line(PartState(MAIL, [MAIL_OFF.finding()]), _NOW),
        _good(SIGN_OUT_NOTICES, SIGN_OUT_NOTICES_GOOD.finding()),
        part_line(PartState(AUDIT_LOG, [NOT_EXPORTED.finding(name="siem", at="2026-11-20")]), _NOW),
        _good("Webhooks", WEBHOOKS_GOOD.finding(count=3)),
    ),
    latest=_EVENTS,
)
_NONE = Chart((), ())
_NEXT = Paging(next="/admin/users?after=1.2", total=Figure(1_284))
_STATES = (badge(ROLE_WORDS[Role.OWNER], "good"), badge("Email not verified", "note"))
_ROWS = tuple(
    Row(
        f"{person.uid}",
        person.name or person.username,
        person.url,
        (_STATES, (since(person.since),)),
        (text(person.username), text(person.email)),
    )
    for person in (ADA, BOB, LONG, NOOR, HOSTILE)
)
_USERS_PAGE = ObjectList(
    LIST.address,
    LIST.words,
    _ROWS[:4],
    tuple((title, HEADINGS["name"] if orders else None) for title, orders in LIST.columns),
    longest=LIST.longest,
    filters=LIST.filters,
    chosen={"show": ""},
    paging=_NEXT,
    links=(("import", "Import users", "/admin/users/import"),),
    new_url="/admin/users/new",
    field="uid",
    actions=(("Disable account", _SELECTED),),
)
USER = replace(
    OBJECT,
    name="Ada Lovelace",
    state=_STATES,
    activity=RecentEvents(_EVENTS, "/admin/events"),
)
OWNER = OwnerPage("/admin/owner", "/admin/owner/account", "/oauth/sign-in?to=/admin/owner", 8)


def _act(slug: str, person: UserLine = ADA) -> ConfirmPage:
    button = _BUTTONS[slug]
    return ConfirmPage(
        f"{_USER}/{slug}",
        _USER,
        button.title,
        button.text,
        person.name or person.username,
        (f"user ID {person.uid}", person.username, person.email),
        ends=Impact(sessions=3, apps=1) if button.shows_impact else None,
        danger=button.danger,
        fields=tuple(
            FieldShown(field.name, field.label, tuple(field.choices), "support", field.hints)
            for field in button.fields
        ),
        hidden=(("app", "web1"),) if button.carries else (),
        consequences=tuple(button.consequences),
        confirms=(person.name or person.username) if button.irreversible else "",
    )


def _places(condition: Condition) -> set[str]:
    texts = (
        condition.about,
        condition.text,
        condition.fix,
        condition.command,
        condition.console,
    )
    return {name for text in texts for name in re.findall(r"%\((\w+)\)s", text)}


_CONDITIONS = [
    condition for condition in (*CONDITIONS, UNFINISHED, FAILED) if condition.level is not Level.OK
]


_VALUES = {
    "algorithm": "ES256",
    "at": "2026-10-22 09:14:03 UTC",
    "authority": "acme-v02.api.letsencrypt.org",
    "awaited": "standby2",
    "client": "notes-printer",
    "connections": "1,000",
    "count": "3",
    "day": "2026-11-02",
    "file": "/var/lib/valetkey/valetkey.keyring",
    "folder": "/var/lib/valetkey",
    "free": "1.2 GiB",
    "host": "hooks.acme.example",
    "limit": "1,024",
    "mode": "0644",
    "name": "Notes Printer",
    "names": "ada, grace",
    "opened": "2",
    "part": "machine",
    "reason": "connection refused",
    "right": "600",
    "role": "valetkey",
    "seconds": "42",
    "server": "auth.acme.example",
    "settings": "fsync = off",
    "size": "310",
    "standby": "standby1",
    "state": "catchup",
    "times": "4",
    "tls": "starttls",
    "total": "40 GiB",
    "uri": "http://printer.example/callback",
    "wanted": "2,048",
    "what": "the keyring",
}


def _overview_of(conditions: Sequence[Condition]) -> ConsoleOverviewPage:
    findings = (
        condition.finding(**{name: _VALUES.get(name, "7") for name in _places(condition)})
        for condition in conditions
    )
    # Without the table of daily figures, so that the page keeps to its weight.
    quiet = replace(OVERVIEW, sign_ins=_NONE, failed=_NONE, tokens=_NONE, errors=_NONE)
    return replace(
        quiet, findings=tuple(finding_line(finding, _OWNER, _NOW) for finding in findings)
    )


def people_examples() -> Mapping[str, PageContext]:
    """The pages in every state."""
    now = Instant(1_800_000_000)
    ada = User(Uid(17), "ada", "ada@example.com", now, "Ada", now, now, None, role=Role.OWNER)
    long = replace(ada, uid=Uid(18), username=LONG.username, name=LONG.name, role=Role.SUPPORT)
    disabled = replace(ada, uid=Uid(19), name=HOSTILE.name, disabled_at=now)
    holders = (
        UserWithRole(ada, protected=True),
        UserWithRole(long, protected=False),
        UserWithRole(disabled, protected=True),
    )
    offered = (("ada", "Ada Lovelace"), ("bob", ""))
    empty = role_adder("", (), offered, is_unknown=False)
    return {
        "admin": OVERVIEW,
        "admin_quiet": replace(
            OVERVIEW,
            people=Figure(1),
            clients=Figure(0),
            grants=Figure(100_000, more=True),
            sign_ins=_NONE,
            failed=_NONE,
            tokens=_NONE,
            errors=_NONE,
            ranges=ranges("/admin", 1, (1, 7, 30)),
            responses=Chart(_HOURS, [(hour * 7_919) % 900 + 300 for hour in range(24)]),
            failures=_NONE,
            slowest=Chart(_HOURS, [(20, 50, 20, 10)[hour % 4] for hour in range(24)]),
            findings=(),
        ),
        "admin_findings": _overview_of(_CONDITIONS[::2]),
        "admin_findings_more": _overview_of(_CONDITIONS[1::2]),
        "admin_users": _USERS_PAGE,
        "admin_selected": _CONFIRM_SELECTED,
        "admin_selected_done": replace(_CONFIRM_SELECTED, entries=_CHOSEN, is_done=True, failed=1),
        "admin_selected_none": replace(_CONFIRM_SELECTED, entries=()),
        "admin_users_hostile": replace(
            _USERS_PAGE, text=HOSTILE.name, rows=_ROWS, chosen={"show": "role"}
        ),
        "admin_user": USER,
        **{f"admin_act_{slug}": _act(slug) for slug in _BUTTONS},
        "admin_act_orphans": replace(_act("delete"), ends=Impact(sessions=3, apps=1, orphans=2)),
        "admin_act_hostile": _act("disable", HOSTILE),
        "admin_roles": roles_page(holders, 17, empty),
        "admin_roles_unknown": roles_page(
            holders[:1], 17, role_adder("nobdy", (), offered, is_unknown=True)
        ),
        "admin_roles_several": roles_page(
            holders[:1], 17, role_adder("1002", (ada, disabled), (), is_unknown=False)
        ),
        "admin_roles_none": roles_page((), 17, None),
        "admin_owner": OWNER,
        "admin_owner_there": replace(OWNER, over=True, has_owner=True),
        "admin_owner_wrong": replace(
            OWNER,
            new=NewOwner(
                "a da", "ada", "Ada", (("username", "Another user name."), ("email", "50% %s"))
            ),
        ),
        "admin_owner_bare": replace(OWNER, person=CurrentUser("ada", "Ada", "ada@example.com")),
        "admin_owner_ready": replace(
            OWNER, person=CurrentUser("ada", "Ada", "ada@example.com"), protected=True
        ),
        "admin_owner_over": OwnerPage("", "", "", 8, over=True),
    }
