"""Pages of a request that has expired, was answered or is another browser's: nobody is stuck."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import BOX, OPEN, link_of, only
from tests.authorization.endpoints.visitor.looks import is_page
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser, usual
from tests.support.visitors import NATIVE, WEB, run
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.protocol.interaction import BEGINS_AGAIN, LIFETIME
from valetkey.kernel.replace import replace

PAGES = ("/oauth/sign-in", "/oauth/consent", "/oauth/second-factor", "/account/new")
APP = "https://app.example/cb?code="


def button(page: Answer) -> str:
    """Where the one button of an error page leads."""
    links = re.findall(r'<a class="button[^>]* href="([^"]*)"', page.body)
    assert len(links) == 1, page.body
    return unescape(links[0])


async def to_the_end(here: Browser, page: Answer) -> Answer:
    """Follow redirects of this server."""
    while page.status == 303 and page.location.startswith("/"):
        page = await here.follow(page)
    return page


async def begun(here: Browser, **parameters: str) -> tuple[str, Answer]:
    """A request that waits: its sealed interaction, and the page."""
    answer = await here.get("/oauth/authorize", **usual(**parameters))
    return answer.location.partition("interaction=")[2], await here.follow(answer)


def test_password_of_an_expired_page_signs_in(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask(nonce="n")
        it.clock.forward(LIFETIME + 60)
        consent = await alice.sign_in(page)
        assert "read your notes" in consent.body
        assert (await alice.allow(consent)).location.startswith(APP)

    run(tmp_path, story, database_url)


def test_username_of_an_expired_page_is_kept_with_a_wrong_password(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        it.clock.forward(LIFETIME + 60)
        wrong = await alice.submit(page, "sign-in", username="alice", password="wrong")
        assert wrong.status == 401
        assert 'value="alice"' in wrong.body
        assert "read your notes" in (await alice.sign_in(wrong)).body

    run(tmp_path, story)


@pytest.mark.parametrize("path", PAGES)
def test_expired_page_begins_again_when_it_is_opened(tmp_path: Path, path: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        sealed, _ = await begun(alice)
        it.clock.forward(LIFETIME)
        page = await to_the_end(alice, await alice.get(f"{path}?interaction={sealed}"))
        assert 'id="sign-in"' in page.body
        assert (await alice.allow(await alice.sign_in(page))).location.startswith(APP)

    run(tmp_path, story, accounts=OPEN)


def test_consent_submitted_after_expiry_is_requested_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        it.clock.forward(LIFETIME)
        again = await to_the_end(alice, await alice.submit(page, "allow", decision="allow"))
        assert "read your notes" in again.body
        assert "code.issued" not in await it.events()
        assert "consent.given" not in await it.events()
        assert (await alice.allow(again)).location.startswith(APP)

    run(tmp_path, story)


def test_decision_that_was_not_used_in_time_is_dropped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        it.clock.forward(LIFETIME)
        again = await to_the_end(alice, await alice.follow(decided))
        assert "read your notes" in again.body

    run(tmp_path, story)


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("nonce", ["", "n-1"])
def test_page_of_an_answered_request_redirects_to_the_app_with_a_new_code(
    tmp_path: Path, path: str, nonce: str
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        parameters = {"nonce": nonce} if nonce else {}
        sealed, page = await begun(alice, **parameters)
        first = await alice.allow(await alice.sign_in(page))
        again = await to_the_end(alice, await alice.get(f"{path}?interaction={sealed}"))
        assert again.location.startswith(APP)
        assert again.told["code"] != first.told["code"]

    run(tmp_path, story, accounts=OPEN)


def test_form_of_an_answered_request_gives_no_second_code_and_one_button(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        await alice.allow(page)
        again = await to_the_end(alice, await alice.submit(page, "allow", decision="allow"))
        is_page(again, 400)
        assert (await it.events()).count("code.issued") == 1
        on = await to_the_end(alice, await alice.get(button(again)))
        assert on.location.startswith(APP)

    run(tmp_path, story)


@pytest.mark.parametrize("cookies", [True, False])
def test_page_of_another_browser_has_one_button_to_the_app(tmp_path: Path, cookies: bool) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(NATIVE, id="nat2", redirect_uris=("com.example.app:/cb",)))
        there = replace(
            WEB, id="web2", openid=replace(WEB.openid, client_uri="https://web2.example")
        )
        await it.register(there)
        for client, redirect_uri, leads_to in (
            ("web1", "https://app.example/cb", "https://app.example/"),
            ("web2", "https://app.example/cb", "https://web2.example"),
            ("nat2", "com.example.app:/cb", "/"),
        ):
            alice, other = it.browser(), it.browser()
            if cookies:
                await other.ask()
            sealed, _ = await begun(
                alice,
                client_id=client,
                redirect_uri=redirect_uri,
                state="only-alices",
                code_challenge="E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
                code_challenge_method="S256",
            )
            for path in (*PAGES, "/oauth/authorize"):
                page = await other.get(f"{path}?interaction={sealed}")
                is_page(page, 403)
                assert button(page) == leads_to
                assert "only-alices" not in page.body

    run(tmp_path, story, accounts=OPEN)


def test_request_too_old_to_restart_shows_one_button_to_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        sealed, page = await begun(alice)
        it.clock.forward(BEGINS_AGAIN)
        for path in (*PAGES, "/oauth/authorize"):
            answer = await alice.get(f"{path}?interaction={sealed}")
            is_page(answer, 400)
            assert button(answer) == "https://app.example/"
        is_page(await alice.sign_in(page), 400)

    run(tmp_path, story, accounts=OPEN)


def test_request_with_a_removed_redirect_uri_does_not_restart(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        sealed, page = await begun(alice)
        await it.change(replace(WEB, redirect_uris=("https://app.example/other",)))
        it.clock.forward(LIFETIME)
        for path in (*PAGES, "/oauth/authorize"):
            answer = await alice.get(f"{path}?interaction={sealed}")
            is_page(await to_the_end(alice, answer), 400)
            assert "app.example" not in answer.location
        assert (await alice.sign_in(page)).status == 400
        assert await it.count("sessions") == 0

    run(tmp_path, story, accounts=OPEN)


def test_form_with_a_stale_token_has_one_button_to_the_form(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        _, page = await begun(alice)
        action, fields = page.form("sign-in")
        form = {"username": "alice", "password": PASSWORD, "csrf": "x" + fields["csrf"][0]}
        refused = await alice.post(action, form)
        is_page(refused, 403)
        on = await to_the_end(alice, await alice.get(button(refused)))
        assert "read your notes" in (await alice.sign_in(on)).body
        plain = await alice.post("/oauth/sign-in", {**form, "csrf": "x"})
        is_page(plain, 403)
        assert button(plain) == "/oauth/sign-in"

    run(tmp_path, story)


def test_sign_up_confirmed_after_expiry_continues_to_the_app(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        here = it.browser()
        sealed, _ = await begun(here)
        form = await here.get(f"/account/new?interaction={sealed}")
        it.clock.forward(LIFETIME)
        typed = {"username": "grace", "email": "grace@example.com", "name": "G", "new": PASSWORD}
        assert "Check your email" in (await here.submit(form, "create", **typed)).body
        it.clock.forward(2 * LIFETIME)
        page = await here.get(link_of(await only(it, EmailKind.SIGN_UP)))
        consent = await to_the_end(here, await here.submit(page, "finish"))
        assert "read your notes" in consent.body

    run(tmp_path, story, accounts=OPEN, mail=BOX)
