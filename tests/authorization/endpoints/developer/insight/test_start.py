"""The former page of first requests leads to the quickstart, which has its programs."""

import re
from html import unescape
from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.developer.insight.teams import (
    WEB1,
    are_for_the_team_alone,
    team,
)
from tests.support.harness import Harness
from tests.support.visitors import ISSUER, WEB, run
from valetkey.authorization.model.client import AuthenticationMethod, GrantTypeName
from valetkey.kernel.replace import replace

PAGE = f"{WEB1}/quickstart"


def test_start_page_redirects_to_each_program_with_the_ids_of_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await are_for_the_team_alone(it, PAGE)
        assert (await browser.get(f"{WEB1}/start")).location == PAGE
        for language in ("curl", "python", "authlib", "node"):
            moved = await browser.get(f"{WEB1}/start", **{"in": language})
            page = await browser.follow(moved)
            program = unescape(page.body.partition('id="file-1">')[2].partition("</code>")[0])
            for value in ("web1", "https://app.example/cb", ISSUER, "CLIENT_SECRET"):
                assert value in re.sub(r"<[^>]*>", "", program)
            chosen = re.findall(r'in=([\w-]+)"\s+aria-current="true"', page.body)
            assert chosen == [f"program-{language}"]
            assert 'data-copy="file-1"' in page.body
        for wrong in ("x", "<script>"):
            assert (await browser.get(f"{WEB1}/start", **{"in": wrong})).location == PAGE
        stranger = await signed_in(it, "mallory")
        assert (await stranger.get(f"{WEB1}/start")).status == 404

    run(tmp_path, story)


def test_private_key_jwt_app_gets_a_hint_and_no_browser_trial(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, authentication_method=AuthenticationMethod.PRIVATE_KEY_JWT))
        page = await (await signed_in(it)).get(PAGE)
        assert knows(page, "The app authenticates with a signed assertion.")
        assert knows(page, f"{ISSUER}/oauth/token")
        assert "Try it in the browser" not in page.body

    run(tmp_path, story)


def test_program_of_a_service_uses_client_credentials(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, grant_types=frozenset({GrantTypeName.CLIENT_CREDENTIALS})))
        page = await (await signed_in(it)).get(PAGE)
        assert "grant_type=client_credentials" in re.sub(r"<[^>]*>", "", page.body)
        assert "Try it in the browser" not in page.body

    run(tmp_path, story)
