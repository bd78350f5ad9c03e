"""The authorization endpoint, as a browser and the app behind it see it."""

from pathlib import Path
from urllib.parse import urlencode

from tests.authorization.endpoints.visitor.looks import is_page, voucher_of
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import usual
from tests.support.visitors import ALICE, CHALLENGE, ISSUER, PKCE, WEB, run
from valetkey.authorization.model.grant import CodePayload
from valetkey.kernel.replace import replace


def test_app_gets_a_code_after_sign_in_and_consent(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask(nonce="n-1", **PKCE)
        assert page.status == 200
        assert "Notes Printer" in page.body
        page = await alice.sign_in(page)
        assert "read your notes" in page.body
        answer = await alice.allow(page)
        assert answer.status == 303, answer.body
        assert answer.location.startswith("https://app.example/cb?code=vk_ac_")
        assert list(answer.told) == ["code", "state", "iss"]
        assert (answer.told["state"], answer.told["iss"]) == ("xyz", ISSUER)
        assert answer.header("cache-control") == "no-store"
        assert answer.header("referrer-policy") == "no-referrer"
        voucher = await voucher_of(it, answer.told["code"])
        code = CodePayload.decode(voucher.payload)
        session = await it.store.read(lambda tx: tx.sessions.find_by_id(code.session_id))
        assert session is not None
        assert code == CodePayload(
            uid=ALICE.uid,
            scope="read notes:read",
            redirect_uri="https://app.example/cb",
            redirect_uri_given=True,
            code_challenge=CHALLENGE,
            nonce="n-1",
            session_id=session.id,
            auth_time=NOON,
            methods=("pwd",),
            consent_id=code.consent_id,
        )
        assert code.consent_id.startswith("co_")
        assert (voucher.client_id, voucher.expires_at) == ("web1", NOON + 60)
        assert voucher.grant_id.startswith("gr_")
        assert sorted(await it.events()) == ["code.issued", "consent.given", "session.started"]

    run(tmp_path, story, database_url)


def test_remembered_consent_is_not_requested_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        first = await alice.allow(await alice.sign_in(await alice.ask()))
        second = await alice.get("/oauth/authorize", **usual(prompt="none"))
        assert second.status == 303
        assert second.told["code"] != first.told["code"]
        wider = await alice.ask(scope="read write")
        assert "change everything" in wider.body
        await alice.allow(wider)
        # What is remembered is the union.
        all_of_it = await alice.ask(scope="read write notes:read", prompt="none")
        assert "code" in all_of_it.told

    run(tmp_path, story)


def test_defaults_apply_without_state_scope_and_redirect_uri(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(state="-", scope="-", redirect_uri="-"))
        answer = await alice.allow(page)
        assert list(answer.told) == ["code", "iss"]
        code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
        assert code.scope == "notes:read"
        assert not code.redirect_uri_given

    run(tmp_path, story)


def test_az_09_prompt_login_and_max_age_zero_require_the_password_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await alice.sign_in(await alice.ask()))
        for changed in ({"prompt": "login"}, {"prompt": "select_account"}, {"max_age": "0"}):
            it.clock.forward(1)
            page = await alice.ask(**changed)
            assert "password" in page.body, changed
            answer = await alice.sign_in(page)
            code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
            assert code.auth_time == it.clock.now

    run(tmp_path, story)


def test_az_09_prompt_none_never_shows_a_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        answer = await alice.get("/oauth/authorize", **usual(prompt="none"))
        assert answer.told["error"] == "consent_required"
        it.clock.forward(100)
        answer = await alice.get("/oauth/authorize", **usual(prompt="none", max_age="10"))
        assert answer.told["error"] == "login_required"

    run(tmp_path, story)


def test_az_13_nonce_is_accepted_once_per_client_except_on_reload(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(WEB, id="web2"))
        alice = it.browser()
        await alice.ask(nonce="n" * 64)
        page = await alice.sign_in(await alice.ask(nonce="n" * 64))
        first = await alice.allow(page)
        assert "code" in first.told
        # The Back button: the same request of the same user in the same browser.
        again = await alice.ask(nonce="n" * 64)
        assert again.told["code"] != first.told["code"]
        for more in ({"state": "another"}, {"scope": "read"}, PKCE):
            changed = await alice.ask(nonce="n" * 64, **more)
            assert changed.told["error"] == "invalid_request", more
            assert "nonce" in changed.told["error_description"]
        # Another browser of the same user, and another user.
        for name in ("alice", "bob"):
            there = it.browser()
            page = await there.sign_in(await there.ask(nonce="n" * 64), name)
            refused = page if page.location else await there.allow(page)
            assert refused.told["error"] == "invalid_request", name
        other = await alice.allow(await alice.ask(nonce="n" * 64, client_id="web2"))
        assert "code" in other.told

    run(tmp_path, story)


def test_cross_site_post_without_cookies_keeps_the_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await alice.sign_in(await alice.ask()))
        kept = dict(alice.cookies)
        # SameSite=Lax: another site's form comes without cookies, the redirect after it with them.
        body = urlencode(usual(prompt="none")).encode()
        posted = await alice.send("POST", "/oauth/authorize", body, cookies=False)
        assert "set-cookie" not in dict(posted.headers)
        assert "code" in (await alice.follow(posted)).told
        assert alice.cookies == kept

    run(tmp_path, story)


def test_lg_03_other_methods_and_content_types_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        for method in ("HEAD", "PUT", "DELETE", "OPTIONS"):
            for path in ("/oauth/authorize", "/oauth/sign-in", "/oauth/consent"):
                answer = await browser.send(method, f"{path}?{urlencode(usual())}")
                assert answer.status == 405
                assert answer.header("allow") == "GET, POST"
        plain = {"content-type": "text/plain"}
        body = urlencode(usual()).encode()
        is_page(await browser.send("POST", "/oauth/authorize", body, plain), 400)

    run(tmp_path, story)


def test_cookies_are_host_only_secure_and_http_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        answer = await it.browser().get("/oauth/authorize", **usual())
        cookie = answer.header("set-cookie")
        assert cookie.startswith("__Host-browser=vk_br_")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")

    run(tmp_path, story)


def test_cookie_names_on_loopback_http_have_the_valetkey_prefix(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser(host="127.0.0.1:8400", scheme="http")
        answer = await alice.allow(await alice.sign_in(await alice.ask()))
        assert "code" in answer.told
        names = ("browser", "browser-state", "familiar", "session")
        assert sorted(alice.cookies) == [f"valetkey-{name}" for name in names]

    run(tmp_path, story, issuer="http://127.0.0.1:8400")
