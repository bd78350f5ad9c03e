"""Signing out: only by the button, of whoever is signed in, and back only to where was agreed."""

import asyncio
import re
from pathlib import Path

import pytest

from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.model.client import OpenIdRegistration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord
from valetkey.kernel.moment import hours
from valetkey.kernel.replace import replace

BACK = "https://app.example/bye"
LEAVER = replace(
    WEB,
    id="leaver",
    name="Leaver",
    openid=OpenIdRegistration(post_logout_redirect_uris=(BACK, f"{BACK}?x=1")),
)
FRAMED = replace(
    WEB,
    id="framed",
    openid=OpenIdRegistration(
        frontchannel_logout_uri="https://framed.example/out?x=1",
        frontchannel_logout_session_required=True,
        backchannel_logout_uri="https://framed.example/back",
    ),
)


async def signed_in(it: Harness) -> Browser:
    """A browser in which alice is signed in."""
    browser = it.browser()
    await browser.sign_in(await browser.get("/oauth/sign-in"))
    assert await is_in(browser)
    return browser


async def is_in(browser: Browser) -> bool:
    return 'id="sign-out"' in (await browser.get("/")).body


async def hint(it: Harness, client_id: str = "leaver") -> str:
    client = await it.store.read(lambda tx: tx.clients.find(client_id))
    assert client is not None
    identity = SignInRecord(ALICE, client, it.clock.now, ("pwd",), sid="se_1")
    return await it.authorize.minter.id_tokens.mint(identity, it.clock.now)


async def joined(it: Harness, client_id: str) -> str:
    """The id of alice's session, of which that client was told."""

    def work(tx: Transaction) -> str:
        (session,) = tx.sessions.live_of(ALICE.uid, it.clock.now)
        assert tx.participants.add(session.id, client_id, it.clock.now)
        return session.id

    return await it.store.write(work)


def says(answer: Answer, words: str) -> bool:
    return words in re.sub(r"\s+", " ", answer.body)


async def leave(it: Harness, browser: Browser, **parameters: str) -> Answer:
    page = await browser.get("/oauth/logout", **parameters)
    assert page.status == 200
    assert await is_in(browser), "a link did it"
    return await browser.submit(page, "sign-out")


def test_logout_page_names_the_app_and_redirects_back_to_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        browser = await signed_in(it)
        parameters = {"id_token_hint": await hint(it), "post_logout_redirect_uri": BACK}
        page = await browser.get("/oauth/logout", **parameters, state="a b&c")
        assert "Leaver" in page.body
        assert "no-store" in page.header("cache-control")
        assert "form-action 'self' https://app.example" in page.header("content-security-policy")
        answer = await browser.submit(page, "sign-out")
        assert (answer.status, answer.location) == (303, f"{BACK}?state=a%20b%26c")
        assert not await is_in(browser)
        assert not [name for name in browser.cookies if "session" in name or "state" in name]

    run(tmp_path, story)


def test_expired_id_token_hint_is_accepted(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        old = await hint(it)
        it.clock.forward(hours(24))
        answer = await leave(
            it, await signed_in(it), id_token_hint=old, post_logout_redirect_uri=f"{BACK}?x=1"
        )
        assert answer.location == f"{BACK}?x=1"

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"client_id": "leaver", "post_logout_redirect_uri": f"{BACK}/"}, "is not registered"),
        ({"client_id": "leaver", "post_logout_redirect_uri": f"{BACK}?x=2"}, "is not registered"),
        ({"client_id": "leaver", "post_logout_redirect_uri": BACK.upper()}, "is not registered"),
        ({"client_id": "web1", "post_logout_redirect_uri": BACK}, "is not registered"),
        ({"client_id": "nobody", "post_logout_redirect_uri": BACK}, "names no app"),
        ({"post_logout_redirect_uri": BACK}, "names no app"),
        (
            {"client_id": "leaver", "post_logout_redirect_uri": BACK, "id_token_hint": "a.b.c"},
            "was not issued by this server",
        ),
        (
            {"client_id": "leaver", "post_logout_redirect_uri": BACK, "state": "x" * 4_097},
            "its state is too long",
        ),
        (
            {"client_id": "leaver", "post_logout_redirect_uri": BACK, "state": "x\ny"},
            "its state is too long",
        ),
    ],
)
def test_invalid_logout_request_still_signs_out_and_shows_the_reason(
    tmp_path: Path, asked: dict[str, str], words: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        browser = await signed_in(it)
        answer = await leave(it, browser, **asked)
        assert answer.status == 200
        assert says(answer, "You are signed out</h1>")
        assert says(answer, words)
        assert not answer.location
        assert not answer.header("refresh")
        assert not await is_in(browser)
        (reference,) = re.findall(r"VK-[0-9A-Z-]+", answer.body)
        (decision,) = [
            record for record in it.server.decisions.drain() if record.reference == reference
        ]
        assert decision.endpoint == "/oauth/logout"
        again = await browser.get("/oauth/logout", **asked)
        assert says(again, words)

    run(tmp_path, story)


def test_hint_and_client_id_of_different_apps_do_not_redirect(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        answer = await leave(
            it,
            await signed_in(it),
            id_token_hint=await hint(it, "web1"),
            client_id="leaver",
            post_logout_redirect_uri=BACK,
        )
        assert says(answer, "name different apps")

    run(tmp_path, story)


def test_hint_with_an_invalid_signature_does_not_redirect(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        good = await hint(it)
        head, _, _ = good.rpartition(".")
        other = (await hint(it)).rpartition(".")[2]
        for bad in (f"{head}.{other[:-4]}AAAA", f"{head}.", head):
            answer = await leave(
                it, await signed_in(it), id_token_hint=bad, post_logout_redirect_uri=BACK
            )
            assert not answer.location
            assert says(answer, "You have been signed out.")

    run(tmp_path, story)


def test_disabled_app_is_unknown(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(LEAVER, disabled_at=it.clock.now))
        answer = await leave(
            it, await signed_in(it), client_id="leaver", post_logout_redirect_uri=BACK
        )
        assert says(answer, "names no app")

    run(tmp_path, story)


def test_signed_out_user_is_redirected_without_confirmation(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        parameters = {"client_id": "leaver", "post_logout_redirect_uri": BACK, "state": "1"}
        answer = await it.browser().get("/oauth/logout", **parameters)
        assert (answer.status, answer.location) == (303, f"{BACK}?state=1")
        nothing = await it.browser().get("/oauth/logout")
        assert says(nothing, "You are signed out</h1>")

    run(tmp_path, story)


def test_cross_site_logout_post_is_redirected_to_get_the_cookies(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        browser = await signed_in(it)
        parameters = {"client_id": "leaver", "post_logout_redirect_uri": BACK, "state": "1"}
        # Without cookies: SameSite=Lax keeps them back.
        sent = await it.browser().post(
            "/oauth/logout", parameters, {"origin": "https://app.example"}
        )
        assert sent.status == 303
        page = await browser.get(sent.location)
        assert 'id="sign-out"' in page.body
        answer = await browser.submit(page, "sign-out")
        assert answer.location == f"{BACK}?state=1"
        long = {**parameters, "id_token_hint": "x" * 9_000}
        assert (await it.browser().post("/oauth/logout", long)).location == "/oauth/logout"

    run(tmp_path, story)


def test_cross_site_or_altered_requests_do_not_sign_out(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        browser = await signed_in(it)
        parameters = {"client_id": "leaver", "post_logout_redirect_uri": BACK}
        for path in ("/oauth/logout", "/oauth/sign-out"):
            for method in ("GET", "HEAD", "PUT", "DELETE"):
                await browser.send(method, path)
        assert (await browser.post("/oauth/logout", parameters)).status == 200
        page = await browser.get("/oauth/logout", **parameters)
        action, fields = page.form("sign-out")
        for changed in (
            {**fields, "csrf": ["x"]},
            {**fields, "returns_to": ["https://evil.example/"]},
            {**fields, "unreturned": ["address"]},
            {name: value for name, value in fields.items() if name != "csrf"},
        ):
            assert (await browser.post(action, changed)).status == 403
        cross = {"origin": "https://evil.example"}
        assert (await browser.post(action, fields, cross)).status == 403
        assert (await browser.post(action, fields, {"sec-fetch-site": "cross-site"})).status == 403
        assert await is_in(browser)

    run(tmp_path, story)


def test_repeated_sign_out_redirects_again_but_not_to_a_changed_address(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        browser = await signed_in(it)
        page = await browser.get("/oauth/logout", client_id="leaver", post_logout_redirect_uri=BACK)
        action, fields = page.form("sign-out")
        assert (await browser.post(action, fields)).location == BACK
        assert (await browser.post(action, fields)).location == BACK
        evil = {**fields, "returns_to": ["https://evil.example/"]}
        assert (await browser.post(action, evil)).status == 403
        assert (await it.events()).count("session.ended") == 1

    run(tmp_path, story)


def test_frontchannel_logout_apps_are_notified_by_iframe(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(LEAVER)
        await it.register(FRAMED)
        browser = await signed_in(it)
        sid = await joined(it, "framed")
        answer = await leave(
            it, browser, client_id="leaver", post_logout_redirect_uri=BACK, state="1"
        )
        assert answer.status == 200
        (source,) = re.findall(r'<iframe src="([^"]+)"', answer.body)
        assert source.replace("&amp;", "&") == (
            f"https://framed.example/out?x=1&iss=https%3A%2F%2Fauth.example&sid={sid}"
        )
        assert "frame-src https://framed.example" in answer.header("content-security-policy")
        assert answer.header("refresh") == f"3; url={BACK}?state=1"
        assert f'href="{BACK}?state=1"' in answer.body

    run(tmp_path, story)


def test_frontchannel_logout_omits_iss_and_sid_unless_required(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        plain = replace(FRAMED.openid, frontchannel_logout_session_required=False)
        await it.register(replace(FRAMED, openid=plain))
        browser = await signed_in(it)
        await joined(it, "framed")
        answer = await browser.submit(await browser.get("/oauth/sign-out"), "sign-out")
        assert re.findall(r'<iframe src="([^"]+)"', answer.body) == [
            "https://framed.example/out?x=1"
        ]
        assert not answer.header("refresh")

    run(tmp_path, story)


def test_idle_session_can_still_be_signed_out(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(FRAMED)
        browser = await signed_in(it)
        await joined(it, "framed")
        it.clock.forward(hours(9))
        assert not await is_in(browser)
        page = await browser.get("/oauth/sign-out")
        assert "alice" not in page.body.lower()
        await browser.submit(page, "sign-out")
        assert await it.count("outbox") == 1

    run(tmp_path, story)


def test_parallel_sign_outs_notify_the_app_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.register(FRAMED)
        browser = await signed_in(it)
        await joined(it, "framed")
        action, fields = (await browser.get("/oauth/sign-out")).form("sign-out")
        kept = dict(browser.cookies)
        answers = await asyncio.gather(*(it.browser(kept).post(action, fields) for _ in range(64)))
        assert {answer.status for answer in answers} <= {200, 303}
        assert await it.count("outbox") == 1
        assert (await it.events()).count("session.ended") == 1

    run(tmp_path, story, database_url)
