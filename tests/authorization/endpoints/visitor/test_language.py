"""In which language somebody is answered, and how they choose another."""

from pathlib import Path

import pytest

from tests.authorization.pages.reading import Reading
from tests.support.cases import case
from tests.support.harness import Harness
from tests.support.plain_browser import Browser, usual
from tests.support.visitors import run
from valetkey.authorization.layout.viewer import ASKED, CHOICE

GERMAN = {"accept-language": "nl, de-AT;q=0.9, en;q=0.1"}


async def _language(browser: Browser, target: str = "/", **headers: str) -> str:
    answer = await browser.send("GET", target, headers=headers)
    spoken = Reading(answer.body.encode()).the("html").attributes["lang"]
    assert answer.header("content-language") == spoken
    assert answer.header("cache-control") == "no-store"
    return spoken


def test_page_language_follows_accept_language(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        assert await _language(browser) == "en"
        assert await _language(browser, **GERMAN) == "de"
        assert await _language(browser, "/oauth/sign-in", **GERMAN) == "de"
        assert await _language(browser, "/errors/", **GERMAN) == "de"
        assert await _language(browser, "/oauth/consent", **GERMAN) == "de"  # which is refused
        assert await _language(browser, **{"accept-language": "nl"}) == "en"

    run(tmp_path, story)


def test_chosen_language_is_kept_and_redirects_back(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = Reading((await browser.get("/errors/")).body.encode())
        to = next(i for i in page.all("input") if i.attributes["name"] == "to").attributes["value"]
        chosen = await browser.post("/language", {"language": "de", "to": to})
        assert (chosen.status, chosen.location) == (303, "/errors/")
        cookies = [value for name, value in chosen.headers if name == "set-cookie"]
        assert "Max-Age=31536000; HttpOnly; SameSite=Lax; Secure" in cookies[0]
        assert await _language(browser, "/errors/") == "de"
        await browser.post("/language", {"language": "en", "to": "/"})
        assert await _language(browser, **GERMAN) == "en"

    run(tmp_path, story)


def test_ui_locales_sets_the_language_until_the_user_chooses_another(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        await browser.post("/language", {"language": "en", "to": "/"})
        answer = await browser.get("/oauth/authorize", **usual(ui_locales="nl de"))
        page = await browser.follow(answer)
        assert 'lang="de"' in page.body
        assert browser.cookies[ASKED] == "de"
        assert any("Path=/oauth; Max-Age=3600" in value for _, value in answer.headers)
        chosen = await browser.post("/language", {"language": "en", "to": answer.location})
        assert chosen.location == answer.location
        page = await browser.get(answer.location)
        assert '<html lang="en"' in page.body
        page = await browser.sign_in(page)
        assert '<html lang="en"' in page.body
        assert "interaction=" in page.form("allow")[0]

    run(tmp_path, story)


def test_requested_language_of_one_app_does_not_affect_another(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        assert 'lang="de"' in (await browser.ask(ui_locales="de")).body
        assert '<html lang="en"' in (await browser.ask()).body
        assert ASKED not in browser.cookies

    run(tmp_path, story)


def test_requested_language_applies_to_error_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        target = "/oauth/authorize?client_id=nobody&ui_locales=de"
        assert await _language(browser, target) == "de"
        back = await browser.post("/language", {"language": "en", "to": target})
        assert back.location == "/oauth/authorize?client_id=nobody"

    run(tmp_path, story)


_FOREIGN_PLACES: tuple[str, ...] = (
    "//evil.example",
    "/\\evil.example",
    "https://evil.example/",
    "javascript:alert(1)",
    "/a\r\nSet-Cookie: x=y",
    "/a b",
    "/" + "a" * 10_000,
    "",
)


def test_lg_open_redirect_foreign_target_of_a_language_choice_is_ignored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for to in _FOREIGN_PLACES:
            with case(to):
                answer = await it.browser().post("/language", {"language": "de", "to": to})
                assert (answer.status, answer.location) == (303, "/")

    run(tmp_path, story)


@pytest.mark.parametrize("language", ["", "tlh", "\x00", "de\udcff", "d" * 5_000])
def test_unsupported_language_is_not_stored(tmp_path: Path, language: str) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        sent = language.encode("utf-8", "surrogateescape").decode("latin-1")
        answer = await browser.post("/language", {"language": sent, "to": "/"})
        assert answer.status in {303, 400}
        assert CHOICE not in browser.cookies

    run(tmp_path, story)


def test_cross_site_language_choice_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.browser().post(
            "/language", {"language": "de"}, {"sec-fetch-site": "cross-site"}
        )
        assert answer.status == 403

    run(tmp_path, story)


@pytest.mark.parametrize("wish", ["%00", "%ff%fe", "de%0d%0aX:y", "a" * 3000, "%", "<script>"])
def test_xs_03_malformed_ui_locales_are_neither_stored_nor_shown(tmp_path: Path, wish: str) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        answer = await browser.send("GET", f"/oauth/sign-in?ui_locales={wish}")
        assert answer.status < 500
        assert "<script>" not in answer.body
        assert ASKED not in browser.cookies

    run(tmp_path, story)
