"""Try it: every step of the flow with the app's own ids, and of use to nobody else."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.authorization.endpoints.account.people import knows
from tests.support.harness import ADA, CALLBACK, SECRET, Harness, run
from tests.support.plain_browser import PASSWORD, Answer, Browser
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.apis.operations import APIS, ApiWanted
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.authorization.portal.rules.apps import CALLBACK as PORTAL_CALLBACK
from valetkey.kernel.moment import minutes

HOST = "localhost:8400"
ISSUER = f"http://{HOST}"
TRY = "/developer/apps/web/try"
SCOPES = ("openid", "notes:read")


async def signed_in(it: Harness, name: str = "ada") -> Browser:
    browser = Browser(it.app, host=HOST, scheme="http")
    page = await browser.get("/oauth/sign-in")
    answer = await browser.submit(page, "sign-in", username=name, password=PASSWORD)
    assert answer.status == 303, answer.body
    return browser


async def begun(it: Harness, **fields: object) -> Browser:
    """Ada looks after the app "web", and bob after "other"; both are signed in by password."""
    await it.client("web", scopes=SCOPES, **fields)
    await it.client("other", scopes=SCOPES)
    await it.password(PASSWORD)
    record = UserRecord("bob", "bob@example.com", "Bob")
    keeper = it.foundation.accounts()
    bob = await it.write(lambda tx: keeper.register(tx, record, it.clock.now))
    uid = getattr(bob, "uid", Uid(0))
    assert uid, bob
    await it.password(PASSWORD, uid)
    for client_id, whose in (("web", ADA), ("other", uid)):
        member = Membership(client_id, whose, TeamRole.OWNER, it.clock.now)
        await it.write(lambda tx, member=member: tx.members.add(member))  # type: ignore[misc]
    return await signed_in(it)


async def prepared(browser: Browser, uri: str = f"{ISSUER}{PORTAL_CALLBACK}") -> tuple[Answer, str]:
    """The first step: the page, and the address of the request."""
    page = await browser.get(TRY)
    assert page.status == 200, page.body
    page = await browser.submit(page, "begin", redirect_uri=uri, scope=list(SCOPES))
    match = re.search(r'id="authorization-request">([^<]+)<', page.body)
    assert match, page.body
    return page, unescape(match[1])


async def caught(browser: Browser, url: str) -> Answer:
    """The second step: the response, at the callback of the portal."""
    page = await browser.follow(await browser.get(url.removeprefix(ISSUER)))
    if 'id="allow"' in page.body:
        page = await browser.submit(page, "allow", decision="allow")
    while page.status == 303:
        assert page.location.startswith(("/", ISSUER)), page.location
        page = await browser.get(page.location.removeprefix(ISSUER).rstrip("#"))
    return page


def test_every_step_shows_request_and_response(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it)
        page, url = await prepared(browser)
        for words in (
            "code_challenge",
            "S256",
            f"{ISSUER}{PORTAL_CALLBACK}",
            "match a registered redirect URI exactly",
        ):
            assert knows(page, words), words
        answer = await caught(browser, url)
        assert answer.status == 200, answer.body
        assert knows(answer, "Authorization granted")
        assert knows(answer, "code_verifier")
        tokens = await browser.submit(answer, "exchange", client_secret=SECRET)
        assert tokens.status == 200, tokens.body
        for words in ("answered 200", "access_token", "id_token", "&#34;sub&#34;", "expires_in"):
            assert knows(tokens, words), words
        assert SECRET not in tokens.body
        assert not re.search(r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]{40}", tokens.body)
        copied = await browser.submit(tokens, "api")
        for words in (
            "notes:read",
            "use notes:read",
            "for 60 more minutes",
            "http://localhost:8401/v2/",
        ):
            assert knows(copied, words), words
        bearer = re.search(r'id="access-token">([^<]+)<', copied.body)
        assert bearer
        assert (await it.introspect(bearer[1]))["scope"] == " ".join(SCOPES)
        userinfo = await browser.submit(tokens, "userinfo")
        assert knows(userinfo, "answered 200")
        assert "&#34;sub&#34;: &#34;1001&#34;" in userinfo.body
        names = await it.events()
        assert {"consent.given", "code.issued", "code.redeemed"} <= set(names)

    run(tmp_path, story)


def test_pasted_redirect_url_is_accepted_only_for_its_request(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it)
        page, url = await prepared(browser, CALLBACK)
        answer = await browser.follow(await browser.get(url.removeprefix(ISSUER)))
        allowed = await browser.follow(await browser.submit(answer, "allow", decision="allow"))
        assert allowed.location.startswith(CALLBACK)
        for wrong in ("", "x", "http://[", CALLBACK, f"{CALLBACK}?code=1&state=2", "\x00\u202e<b>"):
            again = await browser.submit(page, "landed-here", landed=wrong)
            assert again.status == 400, wrong
            assert knows(again, "This is not the response to this request"), (wrong, again.body)
            assert "<b>" not in again.body
        shown = await browser.submit(page, "landed-here", landed=allowed.location)
        assert knows(shown, "Authorization granted")
        tokens = await browser.submit(shown, "exchange", client_secret=SECRET)
        assert knows(tokens, "answered 200")

    run(tmp_path, story)


def test_refused_steps_are_shown_with_error_and_failure_reference(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it)
        _, url = await prepared(browser)
        page = await browser.follow(await browser.get(url.removeprefix(ISSUER)))
        denied = await browser.submit(page, "deny", decision="deny")
        answer = await caught(browser, denied.location)
        assert knows(answer, "Authorization denied")
        assert knows(answer, "access_denied")
        assert "/developer/apps/web/failures/VK-" in answer.body
        _, url = await prepared(browser)
        answer = await caught(browser, url)
        wrong = await browser.submit(answer, "exchange", client_secret="w" * 40)
        assert knows(wrong, "answered 401")
        assert knows(wrong, "invalid_client")
        assert "/developer/apps/web/failures/VK-" in wrong.body
        # The wrong secret did not burn the code; the code is good once.
        assert knows(await browser.submit(answer, "exchange", client_secret=SECRET), "answered 200")
        again = await browser.submit(answer, "exchange", client_secret=SECRET)
        assert knows(again, "invalid_grant")

    run(tmp_path, story)


def test_public_client_is_tested_without_a_secret(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it, type="public")
        _, url = await prepared(browser)
        answer = await caught(browser, url)
        assert "client_secret" not in answer.body
        assert knows(await browser.submit(answer, "exchange"), "answered 200")

    run(tmp_path, story)


def test_trial_is_refused_for_machine_apps_and_invalid_requests(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("machine", grant_types=("client_credentials",), scopes=())
        browser = await begun(it)
        member = Membership("machine", ADA, TeamRole.MEMBER, it.clock.now)
        await it.write(lambda tx: tx.members.add(member))
        page = await browser.get("/developer/apps/machine/try")
        assert knows(page, "This app cannot be tried here")
        none = await browser.submit(await browser.get(TRY), "begin", scope=[])
        assert none.status == 400
        assert knows(none, "Choose at least one.")
        page = await browser.get(TRY)
        foreign = await browser.submit(page, "begin", redirect_uri="https://evil.example/")
        assert foreign.status == 404

    run(tmp_path, story)


def test_ad_03_callback_is_refused_outside_the_session_of_the_test_run(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        ada = await begun(it)
        bob = await signed_in(it, "bob")
        _, url = await prepared(ada)
        query = dict(parse_qsl(urlsplit(url).query))

        async def authorize(browser: Browser, **changed: str) -> Answer:
            parameters = urlencode({**query, **changed})
            return await browser.follow(await browser.get(f"/oauth/authorize?{parameters}"))

        elsewhere = await signed_in(it)
        nobody = Browser(it.app, host=HOST, scheme="http")
        for browser, changed in (
            # A link that somebody is lured to, in another session of the same person, or in none.
            (bob, {}),
            (elsewhere, {}),
            (nobody, {}),
            # The trial of one app is none of another, and no other state is a trial.
            (ada, {"client_id": "other"}),
            (ada, {"state": "x"}),
            (ada, {"state": query["state"][:-1]}),
            (ada, {"redirect_uri": f"{ISSUER}{PORTAL_CALLBACK}/"}),
            (ada, {"redirect_uri": f"{ISSUER}{PORTAL_CALLBACK}?x=1"}),
        ):
            answer = await authorize(browser, **changed)
            assert answer.status == 400, (changed, answer.body)
            assert knows(answer, "redirect_uri is not registered for this app")
        # A test run with another redirect URI does not open the callback.
        _, other = await prepared(ada, CALLBACK)
        state = dict(parse_qsl(urlsplit(other).query))["state"]
        assert (await authorize(ada, state=state)).status == 400
        it.clock.forward(minutes(11))
        assert (await authorize(ada)).status == 400

    run(tmp_path, story)


def test_ad_03_trial_is_accessible_only_in_the_session_that_began_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        ada = await begun(it)
        _, url = await prepared(ada)
        answer = await caught(ada, url)
        action, fields = answer.form("exchange")
        state = fields["trial"][0]
        callback = f"{PORTAL_CALLBACK}?{urlencode({'state': state, 'code': fields['code'][0]})}"
        bob, elsewhere = await signed_in(it, "bob"), await signed_in(it)
        for browser, own in ((bob, TRY.replace("web", "other")), (elsewhere, TRY)):
            assert (await browser.get(callback)).status == 404
            page = await browser.get(own)
            csrf = re.search(r'name="csrf" value="([^"]+)"', page.body)
            assert csrf
            mine = {**fields, "csrf": [csrf[1]], "client_secret": [SECRET]}
            assert (await browser.post(action, mine)).status == 404
            mine["token"] = [state]
            for step in ("userinfo", "api"):
                assert (await browser.post(f"{TRY}/{step}", mine)).status in {400, 404}
        assert (await Browser(it.app, host=HOST, scheme="http").get(callback)).status == 303
        for wrong in ("", "x", state[:-2], "%00", "v1." + "A" * 3_000):
            assert (await ada.get(f"{PORTAL_CALLBACK}?state={wrong}&code=1")).status == 404, wrong
        assert (await ada.post(action, {**fields, "csrf": "x"})).status == 403
        for step in ("answer", "exchange", "userinfo", "api"):
            assert (await ada.get(f"{TRY}/{step}")).status == 405
        # Whoever leaves the team leaves its trials.
        await it.write(lambda tx: tx.members.remove("web", ADA))
        assert (await ada.get(callback)).status == 404
        assert (await ada.post(action, {**fields, "client_secret": [SECRET]})).status == 404

    run(tmp_path, story)


def test_neither_a_test_run_nor_its_secret_is_stored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it)
        _, url = await prepared(browser)
        answer = await caught(browser, url)
        await browser.submit(answer, "exchange", client_secret=SECRET)

    run(tmp_path, story)
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"code.redeemed" in written
    assert SECRET.encode() not in written
    assert b"developer trial" not in written


def test_only_apis_allowed_for_the_app_can_be_chosen_with_their_scopes(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await begun(it)
        declare = next(operation for operation in APIS if operation.id == "create_api")
        for name, clients in (("Calendar", ["any"]), ("Files", ["other"])):
            api = ApiWanted(
                f"https://{name.lower()}.example", name, {f"{name}:read": "see it"}, clients=clients
            )
            await it.perform(declare, {}, api)
        apis = await it.read(lambda tx: tx.apis.page("", 10))
        calendar, files = apis
        page = await browser.get(TRY)
        assert knows(page, "Calendar:read")
        assert "Files" not in page.body, "the app may not ask for it"
        to = {"redirect_uri": f"{ISSUER}{PORTAL_CALLBACK}"}
        for wrong in (files.identifier, "https://x.example"):
            refused = await browser.submit(page, "begin", resource=wrong, scope=["openid"], **to)
            assert refused.status == 404
        empty = await browser.submit(page, "begin", resource=calendar.identifier, scope=[], **to)
        assert empty.status == 400
        scope = ["openid", "notes:read", calendar.qualified("Calendar:read"), "x#Calendar:read"]
        request_page = await browser.submit(
            page, "begin", resource=calendar.identifier, scope=scope, **to
        )
        match = re.search(r'id="authorization-request">([^<]+)<', request_page.body)
        assert match
        query = parse_qs(urlsplit(unescape(match[1])).query)
        assert query["resource"] == [calendar.identifier]
        assert query["scope"] == ["openid Calendar:read"]
        answer = await caught(browser, unescape(match[1]))
        tokens = await browser.submit(answer, "exchange", client_secret=SECRET)
        assert knows(tokens, "answered 200")
        assert f"Audience: <code>{calendar.identifier}</code>" in tokens.body
        assert 'id="userinfo"' not in tokens.body

    run(tmp_path, story)
