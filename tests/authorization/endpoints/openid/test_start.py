"""Opening an app from here: only one that said where, and it learns nothing of the person."""

import re
from pathlib import Path

import pytest

from tests.support.harness import Harness
from tests.support.visitors import WEB, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.kernel.replace import replace

OPENED = replace(
    WEB,
    id="opened",
    openid=OpenIdRegistration(initiate_login_uri="https://app.example/begin?x=1"),
)


def test_start_redirects_to_the_app_with_the_issuer(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(OPENED)
        browser = it.browser()
        await browser.sign_in(await browser.get("/oauth/sign-in"))
        answer = await browser.get("/oauth/start", client_id="opened")
        assert answer.status == 303
        assert answer.location == "https://app.example/begin?x=1&iss=https%3A%2F%2Fauth.example"

    run(tmp_path, story)


@pytest.mark.parametrize("client_id", ["web1", "nobody", "", "off", "\u00fc", "a b"])
def test_start_of_unknown_disabled_or_unprepared_app_is_not_found(
    tmp_path: Path, client_id: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(OPENED, id="off", disabled_at=it.clock.now))
        answer = await it.browser().get("/oauth/start", client_id=client_id)
        assert answer.status == 404
        assert not answer.location
        assert re.search(r"VK-[0-9A-Z-]+", answer.body)

    run(tmp_path, story)


def test_home_page_lists_apps_with_consent_and_start_url(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for client in (OPENED, replace(OPENED, id="never", name="Never allowed")):
            await it.register(client)
        browser = it.browser()
        await browser.sign_in(await browser.get("/oauth/sign-in"))
        assert "/oauth/start" not in (await browser.get("/")).body
        for client_id in ("opened", "web1"):
            await browser.allow(await browser.ask(client_id=client_id))
        home = await browser.get("/")
        assert re.findall(r'href="(/oauth/start[^"]*)"', home.body) == [
            "/oauth/start?client_id=opened"
        ]
        await it.change(replace(OPENED, disabled_at=it.clock.now))
        assert "/oauth/start" not in (await browser.get("/")).body

    run(tmp_path, story)
