"""The authorization endpoint, as a browser and the app behind it see it."""

import asyncio
from dataclasses import replace
from urllib.parse import urlencode

import pytest

from tests.authorization.visitor.world import (
    ALICE,
    CHALLENGE,
    ISSUER,
    NATIVE,
    NOON,
    WEB,
    Answer,
    World,
    run,
    usual,
)
from valetkey.authorization.grant_types.authorization_code import CODE
from valetkey.authorization.model.code import CodePayload
from valetkey.authorization.model.voucher import Voucher, VoucherKind
from valetkey.kernel.scope import Scope

PKCE = {"code_challenge": CHALLENGE, "code_challenge_method": "S256"}


async def voucher_of(it: World, code: str) -> Voucher:
    mark = it.site.keyring.fingerprint_key.of(CODE, code)
    found = await it.store.read(lambda tx: tx.vouchers.find(VoucherKind.CODE, mark))
    assert found is not None
    return found


def is_page(answer: Answer, status: int) -> None:
    """An answer of our own that leads nowhere."""
    assert answer.status == status, answer.body
    assert answer.location == ""
    assert "VK-" in answer.body
    assert "set-cookie" not in dict(answer.headers)


def test_a_person_signs_in_allows_and_the_app_gets_a_code(database_url: str) -> None:
    async def story(it: World) -> None:
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
        )
        assert (voucher.client_id, voucher.expires_at) == ("web1", NOON + 60)
        assert voucher.grant_id.startswith("gr_")
        assert sorted(await it.events()) == ["code.issued", "consent.given", "session.started"]

    run(database_url, story)


def test_who_allowed_it_before_is_not_asked_again(sqlite_url: str) -> None:
    async def story(it: World) -> None:
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

    run(sqlite_url, story)


@pytest.mark.parametrize(
    "client_id",
    ["unknown", "closed", "' or 1=1--", "a\0b", "аpp", "a" * 5_000, "-", ""],
    ids=["unknown", "disabled", "sql", "nul", "cyrillic", "long", "missing", "empty"],
)
def test_az_01_unknown_disabled_and_malformed_clients_get_the_same_page(
    sqlite_url: str, client_id: str
) -> None:
    async def story(it: World) -> None:
        await it.register(replace(WEB, id="closed", disabled_at=NOON))
        answers = []
        for name in ("unknown", client_id):
            answer = await it.browser().get("/oauth/authorize", **usual(client_id=name))
            is_page(answer, 400)
            reference = answer.body.partition("VK-")[2][:14]
            answers.append((answer.body.replace(reference, ""), answer.header("content-type")))
        assert answers[0] == answers[1]
        assert await it.events() == []

    run(sqlite_url, story)


RU = {
    "RU-03": ["https://app.example@evil.test/cb", "https://app.example:x@evil.test/cb"],
    "RU-05": ["https://a@b@evil.test/cb", "https://app.example@@evil.test/cb"],
    "RU-07": [
        "https://evil.test\\@app.example/cb",
        "https://app.example\\.evil.test/cb",
        "https:\\\\evil.test\\cb",
    ],
    "RU-09": [f"https://app.example{path}" for path in ("/cb/x", "/cbx", "/c", "/cb/", "")],
    "RU-11": ["https://APP.example/cb", "HTTPS://app.example/cb"],
    "RU-13": ["https://app.example/cb?a=1", "https://app.example/cb?", "https://app.example/cb&"],
    "RU-15": ["https://app.example/cb;evil=1", "https://app.example/cb;jsessionid=1"],
    "RU-17": ["http://app.example/cb"],
    "RU-19": ["//app.example/cb", "/cb", "cb", ""],
    "RU-25": [
        "http://127.0.0.1.evil.test/cb",
        "http://localhost.evil.test/cb",
        "http://127.1/cb",
        "http://2130706433/cb",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://[::ffff:127.0.0.1]/cb",
        "http://0.0.0.0/cb",
        "http://127.0.0.2/cb",
    ],
    "RU-27": [
        f"https://app.example:{p}/cb" for p in ("0", "65536", "9" * 11, "abc", "-1", "４４３")
    ],
    "RU-29": [
        "https://аpp.example/cb",
        "https://evil。example/cb",
        "https://xn--pp-6ja.example/cb",
    ],
    "RU-33": ["https://app.example/cb?" + "a" * 7_000],
    "controls": ["https://app.example/cb\0", "https://app.example/cb\r\nX: y", "\thttps://app"],
    "fragment": ["https://app.example/cb#", "https://app.example/cb#x"],
}


@pytest.mark.parametrize(
    "uri", [uri for uris in RU.values() for uri in uris], ids=lambda uri: repr(uri)[:60]
)
@pytest.mark.parametrize("client_id", ["web1", "nat1"])
def test_ru_a_redirect_uri_that_is_not_registered_is_never_followed(
    sqlite_url: str, uri: str, client_id: str
) -> None:
    async def story(it: World) -> None:
        said = {**usual(client_id=client_id), **PKCE, "redirect_uri": uri}
        is_page(await it.browser().get("/oauth/authorize", **said), 400)
        is_page(await it.browser().post("/oauth/authorize", said), 400)
        assert await it.events() == []

    run(sqlite_url, story)


def test_ru_21_and_az_03_nothing_may_be_said_twice_or_in_two_places(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = it.browser()
        good = urlencode(usual())
        evil = urlencode({"redirect_uri": "https://evil.test/cb"})
        twice = [f"{good}&{evil}", f"{evil}&{good}", f"{good}&state=2", f"{good}&client_id=web1"]
        for query in twice:
            is_page(await browser.send("GET", f"/oauth/authorize?{query}"), 400)
            is_page(await browser.send("POST", "/oauth/authorize", query.encode()), 400)
        for query, body in ((good, evil), (evil, good), ("state=1", good), (good, "foo=1")):
            split = await browser.send("POST", f"/oauth/authorize?{query}", body.encode())
            is_page(split, 400)

    run(sqlite_url, story)


@pytest.mark.parametrize("port", ["", ":1", ":1024", ":65535"])
def test_ru_23_a_native_app_may_use_any_port_of_the_loopback(sqlite_url: str, port: str) -> None:
    async def story(it: World) -> None:
        uri = f"http://127.0.0.1{port}/cb"
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(client_id="nat1", redirect_uri=uri, **PKCE))
        assert f"form-action 'self' {uri.removesuffix('/cb')}" in page.header(
            "content-security-policy"
        )
        answer = await alice.allow(page)
        assert answer.location.startswith(f"{uri}?code=")
        # Whoever takes the port next is not let in without a person (RFC 8252 section 8.6).
        again = await alice.ask(client_id="nat1", redirect_uri=uri, prompt="none", **PKCE)
        assert again.told["error"] == "consent_required"
        other = {"client_id": "nat1", "redirect_uri": f"http://127.0.0.1{port}/other"}
        is_page(await alice.get("/oauth/authorize", **usual(**other)), 400)
        await it.register(replace(WEB, id="web2", redirect_uris=NATIVE.redirect_uris))
        if port:
            said = usual(client_id="web2", redirect_uri=uri)
            is_page(await alice.get("/oauth/authorize", **said), 400)

    run(sqlite_url, story)


def test_ru_33_a_huge_request_is_refused(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        answer = await it.browser().ask(redirect_uri="https://app.example/" + "a" * 1_000_000)
        is_page(answer, 414)

    run(sqlite_url, story)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "-"}, "invalid_request"),
        ({"response_type": "id_token"}, "unsupported_response_type"),
        ({"response_type": "code\0"}, "unsupported_response_type"),
        ({"scope": "admin"}, "invalid_scope"),
        ({"scope": "client:read"}, "invalid_scope"),
        ({"scope": "read\nwrite"}, "invalid_scope"),
        ({"prompt": "none"}, "login_required"),
        ({"prompt": "none login"}, "invalid_request"),
        ({"prompt": "garbage"}, "invalid_request"),
        ({"prompt": " ".join(["login"] * 100)}, "invalid_request"),
        ({"max_age": "soon"}, "invalid_request"),
        ({"nonce": "n" * 4_096}, "invalid_request"),
        ({"request": "e30."}, "invalid_request"),
        ({"request_uri": "https://evil.test/"}, "invalid_request"),
        ({"id_token_hint": "e30.e30."}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"resource": "https://other.example"}, "invalid_target"),
        ({"resource": "/v2"}, "invalid_target"),
        ({"login_hint": "a\r\nb"}, "invalid_request"),
        ({**PKCE, "code_challenge_method": "plain"}, "invalid_request"),
        ({**PKCE, "code_challenge_method": "S256\n"}, "invalid_request"),
        ({"code_challenge": CHALLENGE}, "invalid_request"),
    ],
    ids=str,
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_az_what_is_wrong_with_a_proven_request_is_told_to_the_client(
    sqlite_url: str, changed: dict[str, str], error: str, method: str
) -> None:
    async def story(it: World) -> None:
        browser, said = it.browser(), usual(**changed)
        if method == "GET":
            answer = await browser.get("/oauth/authorize", **said)
        else:
            answer = await browser.follow(await browser.post("/oauth/authorize", said))
        assert answer.status == 303
        assert answer.location.startswith("https://app.example/cb?error=")
        told = answer.told
        assert told["error"] == error
        assert told["error_uri"] == f"{ISSUER}/errors/{error}"
        assert (told["state"], told["iss"]) == ("xyz", ISSUER)
        assert told["error_description"]
        decision = it.decisions.drain()[-1]
        assert decision.reference == told["reference"]
        assert (decision.client_id, decision.code) == ("web1", error)
        assert await it.events() == []

    run(sqlite_url, story)


@pytest.mark.parametrize(
    "state",
    ["x", '"><script>', "\0", "\r\nX: y", "\U0001f600", "&code=evil", "a+b c%20", "s" * 2_048],
    ids=lambda s: repr(s)[:20],
)
def test_az_05_state_comes_back_as_it_was_by_every_way(sqlite_url: str, state: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        refused = await alice.get("/oauth/authorize", **usual(state=state, scope="admin"))
        assert refused.told["state"] == state
        posted = await alice.follow(await alice.post("/oauth/authorize", usual(state=state)))
        answer = await alice.allow(await alice.sign_in(posted))
        assert answer.told["state"] == state
        assert answer.told["code"].startswith("vk_ac_")

    run(sqlite_url, story)


@pytest.mark.parametrize("size", [2_049, 60_000])
def test_az_05_a_state_that_is_too_long_is_refused_without_it(sqlite_url: str, size: int) -> None:
    async def story(it: World) -> None:
        browser = it.browser()
        answer = await browser.post("/oauth/authorize", usual(state="s" * size))
        answer = await browser.follow(answer)
        assert answer.told["error"] == "invalid_request"
        assert "state" not in answer.told

    run(sqlite_url, story)


def test_a_request_too_long_to_be_carried_along_is_refused(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        uri = "https://app.example/" + "a" * 1_900
        await it.register(replace(WEB, id="web2", redirect_uris=(uri,)))
        said = usual(
            client_id="web2",
            redirect_uri=uri,
            state="s" * 2_048,
            nonce="n" * 512,
            login_hint="\U0001f600" * 320,
        )
        browser = it.browser()
        answer = await browser.post("/oauth/authorize", said)
        assert answer.location.startswith(f"{uri}?error=invalid_request&")

    run(sqlite_url, story)


def test_without_state_and_scope_and_redirect_uri_the_defaults_hold(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask(state="-", scope="-", redirect_uri="-"))
        answer = await alice.allow(page)
        assert list(answer.told) == ["code", "iss"]
        code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
        assert code.scope == "notes:read"
        assert not code.redirect_uri_given

    run(sqlite_url, story)


def test_az_09_prompt_login_really_asks_again(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        await alice.allow(await alice.sign_in(await alice.ask()))
        for changed in ({"prompt": "login"}, {"prompt": "select_account"}, {"max_age": "0"}):
            it.clock.forward(1)
            page = await alice.ask(**changed)
            assert "password" in page.body, changed
            answer = await alice.sign_in(page)
            code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
            assert code.auth_time == it.clock.now

    run(sqlite_url, story)


def test_az_09_prompt_none_never_shows_a_page(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        await alice.sign_in(await alice.get("/oauth/sign-in"))
        answer = await alice.get("/oauth/authorize", **usual(prompt="none"))
        assert answer.told["error"] == "consent_required"
        it.clock.forward(100)
        answer = await alice.get("/oauth/authorize", **usual(prompt="none", max_age="10"))
        assert answer.told["error"] == "login_required"

    run(sqlite_url, story)


def test_az_13_a_nonce_counts_once_per_client_and_a_reload_does_not_use_it(
    sqlite_url: str,
) -> None:
    async def story(it: World) -> None:
        await it.register(replace(WEB, id="web2"))
        alice = it.browser()
        await alice.ask(nonce="n" * 64)
        page = await alice.sign_in(await alice.ask(nonce="n" * 64))
        assert "code" in (await alice.allow(page)).told
        again = await alice.ask(nonce="n" * 64)
        assert again.told["error"] == "invalid_request"
        assert "nonce" in again.told["error_description"]
        other = await alice.allow(await alice.ask(nonce="n" * 64, client_id="web2"))
        assert "code" in other.told

    run(sqlite_url, story)


def test_az_19_another_browser_can_do_nothing_with_the_address(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice, mallory = it.browser(), it.browser()
        begun = await alice.get("/oauth/authorize", **usual())
        stranger = await mallory.get(begun.location)
        is_page(stranger, 403)
        await mallory.ask()  # with a browser cookie of her own
        page = await alice.get(begun.location)
        is_page(await mallory.get(begun.location), 403)
        is_page(await mallory.submit(page, "sign-in", username="bob", password="x"), 403)
        asked = await alice.submit(
            page, "sign-in", username="alice", password="correct horse battery staple"
        )
        is_page(await mallory.get(asked.location), 403)
        consent = await alice.follow(asked)
        is_page(await mallory.submit(consent, "allow", decision="allow"), 403)
        assert "code" in (await alice.allow(consent)).told

    run(sqlite_url, story)


@pytest.mark.parametrize("sealed", ["x", "v1.AAAA", "", "%00", "v1." + "A" * 6_000])
def test_an_address_that_we_did_not_make_leads_nowhere(sqlite_url: str, sealed: str) -> None:
    async def story(it: World) -> None:
        for path in ("/oauth/authorize", "/oauth/consent"):
            is_page(await it.browser().get(f"{path}?interaction={sealed}"), 400)

    run(sqlite_url, story)


def test_an_interaction_ends_after_a_quarter_of_an_hour(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.ask()
        it.clock.forward(15 * 60)
        is_page(await alice.sign_in(page), 400)
        assert await it.count("sessions") == 0

    run(sqlite_url, story)


def test_az_21_requests_that_nobody_answers_leave_nothing_behind(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        for _ in range(50):
            await it.browser().get("/oauth/authorize", **usual())
        for table in ("vouchers", "sessions", "decisions", "throttles"):
            assert await it.count(table) == 0, table
        assert await it.events() == []

    run(sqlite_url, story)


def test_however_often_the_answer_is_given_there_is_one_code(database_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        answers = await asyncio.gather(*(alice.get(decided.location) for _ in range(16)))
        assert [answer.status for answer in answers].count(303) == 1
        assert [answer.status for answer in answers].count(400) == 15
        late = next(answer for answer in answers if answer.status == 400)
        assert "already answered" in late.body
        # Neither does Back, with the other decision.
        is_page(await alice.deny(page), 400)
        assert (await it.events()).count("code.issued") == 1

    run(database_url, story)


@pytest.mark.parametrize(
    "changed",
    [
        {"redirect_uris": ("https://other.example/cb",)},
        {"disabled_at": NOON},
    ],
    ids=["redirect URI removed", "client disabled"],
)
def test_ru_37_what_was_removed_in_flight_gets_no_code(
    sqlite_url: str, changed: dict[str, object]
) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        await it.change(replace(WEB, **changed))  # type: ignore[arg-type]
        is_page(await alice.submit(page, "allow", decision="allow"), 400)
        assert "code.issued" not in await it.events()

    run(sqlite_url, story)


def test_ru_37_removed_after_the_decision_before_the_answer(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        await it.change(replace(WEB, redirect_uris=()))
        is_page(await alice.get(decided.location), 400)
        await it.change(replace(WEB, scope=Scope.of("notes:read")))
        answer = await alice.get(decided.location)
        assert answer.told["error"] == "invalid_scope"
        assert "code.issued" not in await it.events()

    run(sqlite_url, story)


def test_a_closed_account_is_signed_out_everywhere(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        page = await alice.sign_in(await alice.ask())
        decided = await alice.submit(page, "allow", decision="allow")
        await it.store.write(lambda tx: tx.users.change(replace(ALICE, disabled_at=NOON)))
        answer = await alice.follow(decided)
        assert "password" in answer.body
        assert "code.issued" not in await it.events()

    run(sqlite_url, story)


def test_on_post_cookies_that_browsers_keep_back_are_not_missed(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser()
        await alice.allow(await alice.sign_in(await alice.ask()))
        kept = dict(alice.cookies)
        # SameSite=Lax: another site's form comes without cookies, the redirect after it with them.
        body = urlencode(usual(prompt="none")).encode()
        posted = await alice.send("POST", "/oauth/authorize", body, cookies=False)
        assert "set-cookie" not in dict(posted.headers)
        assert "code" in (await alice.follow(posted)).told
        assert alice.cookies == kept

    run(sqlite_url, story)


def test_lg_03_nothing_happens_by_other_methods(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = it.browser()
        for method in ("HEAD", "PUT", "DELETE", "OPTIONS"):
            for path in ("/oauth/authorize", "/oauth/sign-in", "/oauth/consent"):
                answer = await browser.send(method, f"{path}?{urlencode(usual())}")
                assert answer.status == 405
                assert answer.header("allow") == "GET, POST"
        plain = {"content-type": "text/plain"}
        body = urlencode(usual()).encode()
        is_page(await browser.send("POST", "/oauth/authorize", body, plain), 400)

    run(sqlite_url, story)


def test_cookies_are_host_only_secure_and_out_of_scripts_reach(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        answer = await it.browser().get("/oauth/authorize", **usual())
        cookie = answer.header("set-cookie")
        assert cookie.startswith("__Host-browser=vk_br_")
        assert cookie.endswith("; Path=/; HttpOnly; SameSite=Lax; Secure")

    run(sqlite_url, story)


def test_on_loopback_http_cookies_have_plain_names(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        alice = it.browser(host="127.0.0.1:8400", scheme="http")
        answer = await alice.allow(await alice.sign_in(await alice.ask()))
        assert "code" in answer.told
        assert sorted(alice.cookies) == ["browser", "session"]

    run(sqlite_url, story, issuer="http://127.0.0.1:8400")
