"""One example of every account page, and those that are hardest to lay out."""

from collections.abc import Mapping

from valetkey.authorization.actions.account.passwords import NewPasswordFault
from valetkey.authorization.features import KINDS
from valetkey.authorization.layout.contexts import (
    AskingApp,
    CurrentUser,
    ProofMethod,
    SessionLine,
    When,
)
from valetkey.authorization.layout.render import PageContext
from valetkey.authorization.site.account.activity import ActivityLine, ActivityPage, ListedEvents
from valetkey.authorization.site.account.apps import (
    AppLine,
    AppPage,
    AppsPage,
    EndAppPage,
    EndAppsPage,
    GrantLine,
    PermissionLine,
    Used,
)
from valetkey.authorization.site.account.security.confirm import ConfirmFactorPage
from valetkey.authorization.site.account.security.overview import PasswordPage
from valetkey.authorization.site.account.sessions import SessionsPage
from valetkey.authorization.site.page import Heading, Paging
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

NOW = Instant(1_800_000_000)
HEADINGS = {"name": Heading("?sort=name"), "time": Heading("?sort=oldest", "descending")}
_LATER = Paging("/account/activity", "/account/activity?before=2.ev_2")
_HAPPENED = (
    ("session.started", ""),
    ("session.ended", "signed_out"),
    ("session.ended", "signed_out_elsewhere"),
    ("session.ended", "password_changed"),
    ("session.ended", "user_disabled"),
    ("session.renewed", ""),
    ("sign_in.failed", ""),
    ("password.changed", ""),
    ("code.redeemed", ""),
    ("grant.revoked", "user_withdrew"),
    ("consent.given", ""),
    ("consent.denied", ""),
    ("consent.withdrawn", ""),
    ("user.changed", ""),
    ("user.disabled", ""),
    ("user.enabled", ""),
    ("user.registered", ""),
)


def ago(seconds: int) -> When:
    """So many seconds before the page is shown."""
    return When(Instant(NOW - seconds), NOW)


def line(app: AskingApp, client_id: str = "app 1&x=2") -> AppLine:
    """That app, connected for long."""
    return AppLine(
        client_id,
        app.name,
        app.domain,
        (
            PermissionLine("read your notes", Used.YES, ago(200)),
            PermissionLine("write, change and delete your notes", Used.NEVER),
            PermissionLine("add and delete photos", Used.NOT_SINCE, ago(4_000_000)),
            PermissionLine("see 50% of %s"),
            PermissionLine("know your email address", Used.TOLD),
            PermissionLine("see your calendar", api="<b>Calendar"),
        ),
        since=ago(9_000_000),
        last_used=ago(200),
        outlasts=True,
        logo_url=app.logo_url,
    )


ADA = CurrentUser("ada", "Ada Lovelace", "ada@example.com")


_LISTED = ListedEvents.from_kinds(KINDS)


def happened(name: str, when: When, app: str = "", because: str = "") -> ActivityLine:
    """Return the line of an event with this name."""
    return ActivityLine(_LISTED.text(name, because), when, app)


def account_examples(*apps: AskingApp, hostile: AskingApp) -> Mapping[str, PageContext]:
    """The account pages with these apps on them."""
    lines = tuple(map(line, apps))
    resting = replace(lines[0], last_used=None)
    bound = replace(lines[0], outlasts=False, permissions=(), domain="")
    yes = GrantLine("Firefox", "Linux", ago(9_000_000), ago(200), ago(-5_000_000), True)
    one = AppPage(
        app=lines[0],
        description="Prints what you noted, on paper",
        verified=True,
        self_registered=False,
        policy_url="https://app.example/privacy",
        terms_url="https://app.example/terms",
        connections=(yes, replace(yes, browser="", system="", outlasts=False, here=True)),
    )
    here = SessionLine(
        "se_1", "Firefox", "Linux", ago(90_000), ago(5), here=True, signed_in_from="203.0.113.7"
    )
    long = "2001:db8:1234:5678:9abc:def0:1234:5678"
    others = (
        SessionLine(
            "se_2", "Safari", "iPhone", ago(700_000), ago(7_300), proof=ProofMethod.PASSKEY
        ),
        SessionLine(
            "se_3",
            "",
            "",
            ago(70_000),
            ago(3_600),
            proof=ProofMethod.ELSEWHERE,
            signed_in_from=long,
            last_seen_from="198.51.100.23",
        ),
        SessionLine("se_4", "Chrome", "", ago(59), ago(59), proof=ProofMethod.TWO_STEPS),
    )
    end, all_, sessions = "/account/apps/end", "/account/apps/end-all", "/account/sessions"
    security = "/account/security"
    return {
        "apps": AppsPage((*lines, resting, bound)),
        "apps_one": AppsPage(lines[:1], ended="Old Printer"),
        "apps_none": AppsPage((), all_ended=True),
        "apps_hostile": AppsPage((line(hostile),), ended=hostile.name),
        "connected_app": one,
        "connected_app_resting": replace(
            one, app=bound, description="", connections=(), policy_url="", terms_url=""
        ),
        "connected_app_hostile": replace(
            one,
            app=line(hostile),
            verified=False,
            self_registered=True,
            policy_url=hostile.policy_url,
        ),
        "end_app": EndAppPage(end, lines[0]),
        "end_app_hostile": EndAppPage(end, line(hostile)),
        "end_apps": EndAppsPage(all_, lines),
        "end_apps_hostile": EndAppsPage(all_, (line(hostile),)),
        "activity": ActivityPage(
            tuple(
                replace(
                    happened(name, ago(number * 9_000), "Notes Printer", because),
                    browser="Firefox" if number % 2 else "",
                    system="Linux" if number % 2 else "",
                    ip_address=("", "", "203.0.113.7", long)[number % 4],
                )
                for number, (name, because) in enumerate(_HAPPENED)
            ),
            Paging(next="/account/activity?before=1.ev_1"),
        ),
        "activity_none": ActivityPage((), _LATER),
        "activity_hostile": ActivityPage(
            (happened("consent.given", ago(5), hostile.name),), _LATER
        ),
        "confirm": ConfirmFactorPage("/account/confirm", ADA, "ada"),
        "confirm_again": ConfirmFactorPage("/account/confirm", ADA, "ada", repeats=True),
        "confirm_wrong": ConfirmFactorPage("/account/confirm", ADA, "ada", wrong="password"),
        "confirm_wait": ConfirmFactorPage(
            "/account/confirm", ADA, "ada", wrong="password", wait=240
        ),
        "confirm_no_password": ConfirmFactorPage("/account/confirm", ADA, "ada", by_password=False),
        "security": PasswordPage(security, "ada", 8, ago(4_000_000)),
        "security_changed": PasswordPage(security, "ada", 8, ago(5), changed=True),
        "security_wrong": PasswordPage(security, "ada", 8, ago(50), wrong=True),
        "security_wait": PasswordPage(security, "ada", 8, ago(50), wait=240),
        "security_none": PasswordPage(security, "ada", 8, None),
        **{
            f"security_{fault}": PasswordPage(security, "ada", 8, ago(50), fault=fault)
            for fault in NewPasswordFault
        },
        "sessions": SessionsPage(sessions, (here, *others)),
        "sessions_one": SessionsPage(sessions, (here,), all_ended=True),
        "sessions_ended": SessionsPage(sessions, (here, others[0]), ended=True),
    }
