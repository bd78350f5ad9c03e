"""First request: a program with the app's own ids, and no secret in it."""

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


def test_each_language_has_its_program_with_the_ids_of_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await are_for_the_team_alone(it, f"{WEB1}/start")
        first = await browser.get(f"{WEB1}/start")
        assert knows(first, "#!/bin/sh")
        for language in ("curl", "python", "authlib", "node"):
            page = await browser.get(f"{WEB1}/start", **{"in": language})
            program = unescape(page.body.partition('id="snippet">')[2].partition("</code>")[0])
            assert "web1" in program
            assert "https://app.example/cb" in program
            assert ISSUER in program
            assert "CLIENT_SECRET" in program
            tabs = page.body.partition('class="tabs"')[2].partition("</nav>")[0]
            chosen = re.findall(r'in=(\w+)"\s+aria-current="page"', tabs)
            assert chosen == [language]
            assert 'data-copy="snippet"' in page.body
        for wrong in ("browser", "x", "<script>"):
            page = await browser.get(f"{WEB1}/start", **{"in": wrong})
            assert page.status == 200
            assert knows(page, "#!/bin/sh")

    run(tmp_path, story)


def test_a_machine_is_not_told_to_ask_people(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        browser = await signed_in(it)
        assert knows(await browser.get(f"{WEB1}/start"), "allow access in the browser")
        await it.change(replace(WEB, grant_types=frozenset({GrantTypeName.CLIENT_CREDENTIALS})))
        page = await browser.get(f"{WEB1}/start")
        assert knows(page, "it gets a token of its own")
        assert not knows(page, "allow access in the browser")

    run(tmp_path, story)


def test_an_app_that_signs_is_told_to_use_a_library(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await team(it)
        await it.change(replace(WEB, authentication_method=AuthenticationMethod.PRIVATE_KEY_JWT))
        page = await (await signed_in(it)).get(f"{WEB1}/start")
        assert knows(page, "No sample program for this kind of app")
        assert knows(page, f"{ISSUER}/oauth/token")

    run(tmp_path, story)
