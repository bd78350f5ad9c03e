"""The front door: where it leads who has no account yet, and who lost their way."""

from pathlib import Path

from tests.authorization.endpoints.mailed.post import browser, proven, run, signed_in
from tests.support.harness import Harness
from valetkey.config.sections.people import AccountSettings, SignUpMode

READS_HTML = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_home_links_to_sign_up_and_the_developer_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        home = await browser(it).get("/")
        for path in ("/account/new", "/developer"):
            assert f'href="{path}"' in home.body
            assert (await browser(it).get(path)).status in {200, 303}

    run(tmp_path, story)


def test_home_has_no_sign_up_link_when_sign_up_is_off(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        assert "/account/new" not in (await browser(it).get("/")).body

    run(tmp_path, story, accounts=AccountSettings(sign_up=SignUpMode.OFF))


def test_passkey_advice_links_to_the_page_that_adds_one(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await proven(it)
        here = await signed_in(it)
        home = (await here.get("/")).body
        assert 'href="/account/security/passkeys/new">Add a passkey' in home

    run(tmp_path, story)


def test_unknown_path_returns_html_to_browsers_and_json_to_programs(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        page = await browser(it).send("GET", "/nowhere/profile", headers=READS_HTML)
        assert (page.status, page.header("content-type")) == (404, "text/html; charset=utf-8")
        assert "Page not found" in page.body
        assert "Go back to the app" not in page.body
        for method, headers in (("GET", {}), ("GET", {"accept": "*/*"}), ("POST", READS_HTML)):
            answer = await browser(it).send(method, "/nowhere/profile", headers=headers)
            assert (answer.status, answer.header("content-type")) == (404, "application/json")

    run(tmp_path, story)
