"""Usage: every day of ninety, as a chart and in numbers, for the team alone."""

import re
from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.authorization.endpoints.developer.insight.test_failures import refused, written
from tests.support.harness import Harness
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.actions.usage import LAG, roll_up
from valetkey.authorization.model.event.grants import CodeRedeemed, RefreshTokenUsed
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.replace import replace
from valetkey.kernel.tracing import RequestSample

_CHART = r"<svg\s+viewBox"


def test_daily_usage_is_shown_as_charts_and_tables(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await team(it)

        def happen(tx: Transaction) -> None:
            now = it.clock.now
            for uid in (ALICE.uid, BOB.uid, BOB.uid):
                tx.events.add(CodeRedeemed(uid, "web1", "g", "t", "read", "https://a.x"), now)
            earlier = Instant(now - days(3))
            tx.events.add(
                RefreshTokenUsed(BOB.uid, "web1", "g", "t", True, "read", "https://a.x"), earlier
            )
            long_ago = Instant(now - days(91))
            tx.events.add(CodeRedeemed(BOB.uid, "web1", "g", "t", "read", "https://a.x"), long_ago)
            tx.usage.count("web1", now // 86_400, "errors.invalid_grant", 1_234)

        await it.store.write(happen)
        it.clock.forward(LAG + 1)
        while await it.store.write(lambda tx: roll_up(tx, it.clock.now)):
            pass
        browser = await signed_in(it)
        page = await browser.get(f"{WEB1}/usage?days=90")
        assert page.status == 200, page.body
        for words in ("authorization_code", "refresh_token", "invalid_grant", "1,234", "//a.x"):
            assert knows(page, words), words
        assert len(re.findall(_CHART, page.body)) == 3
        charts = re.findall(r'<path class="bars[^>]*d="([^"]*)"', page.body)
        assert [chart.count("M") for chart in charts] == [2, 2, 1]
        # Today is at the right end, three days ago is three bars before it.
        assert charts[0] == "M861 100v-25h8V100zM891 100v-75h8V100z"
        assert page.body.count('<th scope="row">') == 2 + 1 + 1 + 2
        assert "style=" not in page.body
        week = await browser.get(f"{WEB1}/usage?days=7")
        assert re.findall(r'<path class="bars[^>]*d="([^"]*)"', week.body)[0].startswith("M31 ")

    run(tmp_path, story, database_url)


def test_unused_app_has_a_message_instead_of_charts(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        page = await (await signed_in(it)).get(f"{WEB1}/usage")
        assert knows(page, "Not used yet")
        assert not re.search(_CHART, page.body)

    run(tmp_path, story)


def test_usage_page_is_available_only_to_the_team(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await are_for_the_team_alone(it, f"{WEB1}/usage")

    run(tmp_path, story)


def test_overview_shows_weekly_charts_last_sign_in_and_last_failure(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        unused = await browser.get(WEB1)
        for words in ("No requests in the last 7 days.", "Never", "None in the last 7 days"):
            assert knows(unused, words), words
        assert not re.search(_CHART, unused.body)
        # That there is no logo is a hint, and a redirect URI without https is more.
        assert knows(unused, "Nothing urgent")
        await it.change(replace(WEB, redirect_uris=("http://localhost:3000/cb",)))
        assert knows(await browser.get(WEB1), "1 issue to fix")

        def happen(tx: Transaction) -> None:
            now = it.clock.now
            for ago in (1, 8):
                at = Instant(now - days(ago))
                tx.events.add(CodeRedeemed(ALICE.uid, "web1", "g", "t", "read", ""), at)
            # An access token that no user signed in for.
            tx.events.add(RefreshTokenUsed(BOB.uid, "web1", "g", "t", True, "read", ""), now)
            tx.usage.count("web1", now // 86_400, "errors.invalid_grant", 3)

        await it.store.write(happen)
        reference = refused(it, client_id="web1")
        await written(it)
        it.clock.forward(LAG + 1)
        while await it.store.write(lambda tx: roll_up(tx, it.clock.now)):
            pass
        page = await browser.get(WEB1)
        for words in ("Access tokens: 2", "Failed requests: 4", "Last sign-in"):
            assert knows(page, words), words
        charts = re.findall(r'<path class="bars[^>]*d="([^"]*)"', page.body)
        assert [chart.count("M") for chart in charts] == [2, 1]
        health = page.body.partition("Last sign-in")[2].partition("Issues")[0]
        assert re.findall(r"(\d+ \w+) ago", health) == ["1 day", "2 minutes"]
        assert "no, in fixed words." in health
        assert f'href="{WEB1}/failures/{reference}"' in health

    run(tmp_path, story, database_url)


def test_overview_shows_a_sign_in_before_its_tokens_are_counted(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        now = it.clock.now
        kinds = ("refresh_token", "authorization_code", "")
        samples = [
            RequestSample("web1", Instant(now - ago), "POST", "/oauth/token", 200, 9, grant_type)
            for ago, grant_type in zip((60, 300, 120), kinds, strict=True)
        ]
        await it.store.write(lambda tx: tx.request_samples.add(samples, 60))
        page = await (await signed_in(it)).get(WEB1)
        health = page.body.partition("Last sign-in")[2].partition("Issues")[0]
        assert re.findall(r"(\d+ \w+) ago", health) == ["5 minutes"]

    run(tmp_path, story, database_url)
