"""The console's overview: what to do, the state of each part, and charts of one period."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.authorization.endpoints.admin.things.desk import administrator, do, page
from tests.support.conditions import CONDITIONS
from tests.support.harness import ADA, NOON, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.actions.admin.server import activity
from valetkey.authorization.actions.inspection.inspector import KEPT
from valetkey.authorization.actions.usage import LAG, count_refusals, roll_up
from valetkey.authorization.model.event.accounts import SessionStarted, SignInFailed
from valetkey.authorization.model.event.grants import AccessTokenIssued
from valetkey.authorization.model.user import Role
from valetkey.authorization.operations.table import OPERATIONS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.kernel.moment import Instant, days, hours
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.runtime import SYSTEM

ADMIN = "/admin"
_LEGACY = "may use the implicit grant"


async def _section(browser: Browser, title: str, query: str = "") -> str:
    body = (await page(browser, f"{ADMIN}{query}")).body
    return body.partition(f">{title}</h2>")[2].partition("<h2")[0]


def _states(section: str) -> Mapping[str, str]:
    """The badge of each part by its name, "" for none."""
    parts = re.findall(r"<strong>(.+?)</strong>(.*?)</li>", section, re.DOTALL)
    badges = {name: re.findall(r"class=\"badge \w+\">(.+?)<", part) for name, part in parts}
    return {name: texts[0] if texts else "" for name, texts in badges.items()}


def test_remedy_button_is_shown_only_to_roles_with_the_permission(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("viewer", profile="classic")
        browser = await administrator(it)
        await do(browser, "/admin/clients/viewer/allow-implicit")
        it.clock.forward(KEPT + 1)
        shown = (await _section(browser, "Needs attention")).partition(_LEGACY)[2]
        link, name = re.findall(r'href="([^"]+)"[^>]*>([^<]+)</a>\n</p>', shown)[0]
        assert (link, name) == ("/admin/clients/viewer/end-implicit", "Disable implicit grant")
        assert "valetkey client" not in shown
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.AUDITOR, it.clock.now))
        shown = (await _section(browser, "Needs attention")).partition(_LEGACY)[2]
        link, name = re.findall(r'href="([^"]+)"[^>]*>([^<]+)</a>\n</p>', shown)[0]
        assert (link, name) == ("/admin/clients/viewer", "Show")
        await it.write(lambda tx: tx.user_directory.set_role(ADA, Role.OWNER, it.clock.now))
        await do(browser, "/admin/clients/viewer/end-implicit")
        it.clock.forward(KEPT + 1)
        assert _LEGACY not in await _section(browser, "Needs attention")

    run(tmp_path, story)


def test_every_remedy_links_to_an_existing_page_with_its_permission(tmp_path: Path) -> None:
    permissions = {
        button.slug: operation.permission
        for operation in OPERATIONS
        for button in operation.buttons
        if button.slug in {condition.remedy.slug for condition in CONDITIONS if condition.remedy}
        and not operation.path.startswith("/apis")
    }

    async def story(it: Harness) -> None:
        await it.client("viewer", profile="classic")
        browser = await administrator(it)
        await do(browser, "/admin/clients/viewer/allow-implicit")
        for condition in CONDITIONS:
            remedy, console = condition.remedy, condition.console
            if remedy is None or re.search(r"%\((?!client)", console):
                continue
            assert remedy.permission == permissions.get(remedy.slug, remedy.permission)
            url = console % {"client": quote("viewer", safe="")}
            remedy_url = f"{url}/{remedy.slug}" if remedy.slug else url
            if remedy.slug != "end-password":
                assert (await page(browser, remedy_url)).status == 200

    run(tmp_path, story)


def test_overview_shows_the_state_of_each_part_in_words(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        it.clock.forward(KEPT + 1)
        section = await _section(browser, "State")
        states = _states(section)
        # The clock of a PostgreSQL server is not that of the test.
        is_server = database_url.startswith("postgres")
        assert states["Database"] == ("Urgent" if is_server else "OK")
        good = ("Signing keys", "Sign-out notices", "Audit log")
        assert [states[name] for name in good] == ["OK"] * len(good)
        assert "This machine" in states
        assert (states["Nodes"], states["Backups"]) == ("", "")
        assert "One ES256 key is active; the next is used from" in section
        # Email is off, which is said once, with its button.
        assert states["Email"] == "Needs attention"
        assert not {"Webhooks", "Certificates", "Directories (SCIM)"} & states.keys()
        await it.write(lambda tx: tx.db.run("UPDATE signing_keys SET activates_at = 1900000000"))
        it.clock.forward(KEPT + 1)
        assert _states(await _section(browser, "State"))["Signing keys"] == "Urgent"
        assert 'href="/admin/keys/rotate"' in await _section(browser, "Needs attention")

    run(tmp_path, story, database_url)


def test_chosen_period_applies_to_all_charts(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        for query, chosen, points in (
            ("", "30 days", 30), ("?days=7", "7 days", 7), ("?days=1", "24 hours", 24),
            ("?days=365", "30 days", 30), ("?days=x", "30 days", 30),
        ):  # fmt: skip
            body = (await page(browser, f"{ADMIN}{query}")).body
            (current,) = re.findall(r'days=\d+"\s+aria-current="page">([^<]+)<', body)
            assert current.strip() == chosen
            charts = re.findall(r'data-points="([^"]+)"', body)
            assert {len(chart.split("\n")) for chart in charts} <= {points}
            # Every chart that is empty says so, in place of an axis.
            assert body.count("Nothing happened in this period.") == 7 - len(charts)

    run(tmp_path, story)


@pytest.mark.parametrize("passed", [0, 1, 23])
def test_last_day_is_counted_by_hour(tmp_path: Path, database_url: str, passed: int) -> None:
    async def story(it: Harness) -> None:
        at = Instant(NOON - NOON % 3_600 + 5)
        await it.write(lambda tx: tx.events.sweep(Instant(NOON + 1), 1_000))

        def happen(tx: Transaction) -> None:
            tx.events.add(SessionStarted(ADA, "se", ("pwd",)), at)
            tx.events.add(SessionStarted(ADA, "se", ("pwd",)), Instant(at - hours(1)))
            tx.events.add(SignInFailed(None, "page"), at)
            token_details = ("client_credentials", "x", "https://a.x")
            tx.events.add(AccessTokenIssued("web1", None, None, "t", *token_details), at)
            queue = ClientDecisionQueue(SYSTEM.random)
            no = Refusal(ErrorCode.INVALID_GRANT, "no", "test.check")
            queue.enqueue(no, endpoint="/oauth/token", at=at, client_id="web1")
            count_refusals(tx, list(queue.waiting))
            tx.response_times.add({(at // 3_600, "good", 5): 3, (at // 3_600, "failed", 10): 1})

        await it.write(happen)
        while await it.write(lambda tx: roll_up(tx, Instant(at + LAG + 1))):
            pass
        now = Instant(at + hours(passed))
        day = await it.read(lambda tx: activity(tx, CommandLine(), now, 1))
        position = 23 - passed
        assert len(day.labels) == 24
        assert day.labels[position] == f"{at // 3_600 % 24:02}:00"
        for numbers in (day.sign_ins, day.failed_sign_ins, day.tokens, day.errors):
            assert numbers[position] == 1
        assert sum(day.sign_ins) == (2 if position else 1)
        assert (day.responses[position].answers, day.responses[position].failures) == (4, 1)
        # The week has the same numbers, by day.
        week = await it.read(lambda tx: activity(tx, CommandLine(), Instant(at + days(1)), 7))
        assert [len(week.labels), sum(week.sign_ins), sum(week.tokens)] == [7, 2, 1]
        assert (week.responses[-2].answers, week.responses[-2].most) == (4, 10)

    run(tmp_path, story, database_url)
