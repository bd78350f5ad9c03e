"""The consent page: some yes, some no, and forms that others made."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.visitor.looks import is_page, voucher_of
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, WEB, run
from valetkey.authorization.model.grant import CodePayload
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope


async def asked(alice: Browser, **parameters: str) -> Answer:
    return await alice.sign_in(await alice.ask(**parameters))


def test_only_checked_scopes_are_granted_and_remembered(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        answer = await alice.allow(await asked(alice), scope=["notes:read"])
        code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
        assert code.scope == "notes:read"
        consent = await it.store.read(lambda tx: tx.consents.find(ALICE.uid, "web1"))
        assert consent is not None
        assert str(consent.scope) == "notes:read"
        assert "read everything" in (await alice.ask()).body

    run(tmp_path, story)


def test_unchecked_scope_is_removed_from_the_consent(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await asked(alice, scope="notes:read read write"))
        page = await alice.ask(scope="notes:read write", prompt="consent")
        await alice.allow(page, scope=["notes:read"])
        assert "change everything" in (await alice.ask(scope="write")).body
        # What the page did not ask about is as it was.
        assert "code" in (await alice.ask(scope="notes:read read")).told

    run(tmp_path, story)


def test_change_of_the_clients_name_voids_earlier_consent(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await asked(alice, scope="notes:read write"))
        await it.change(replace(WEB, name="Another Printer"))
        await alice.allow(await alice.ask(scope="notes:read"))
        assert "change everything" in (await alice.ask(scope="write")).body

    run(tmp_path, story)


def test_change_of_redirect_uris_voids_earlier_consent(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await asked(alice))
        both = (*WEB.redirect_uris, "https://evil.example/cb")
        await it.change(replace(WEB, redirect_uris=both))
        silent = await alice.ask(redirect_uri=both[1], prompt="none")
        assert silent.told["error"] == "consent_required"
        page = await alice.ask(redirect_uri=both[1])
        assert "the address it takes you back to" in page.body
        assert "evil.example" in page.body
        assert "its terms" not in page.body
        # Another address of the same place is no news.
        await alice.allow(page)
        await it.change(replace(WEB, redirect_uris=(*both, "https://app.example/other")))
        assert "code" in (await alice.ask(redirect_uri="https://app.example/other")).told

    run(tmp_path, story)


def test_consent_without_any_scope_is_refused_and_shown_again(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        again = await alice.allow(page, scope=[])
        assert again.status == 400
        assert "Nothing is selected" in again.body
        assert "checked" not in again.body
        answer = await alice.allow(again, scope=["read"])
        assert "code" in answer.told

    run(tmp_path, story)


def test_required_scopes_are_granted_without_a_box(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.change(replace(WEB, required_scope=Scope.of("notes:read", "write")))
        alice = it.browser()
        page = await asked(alice)
        answer = await alice.allow(page, scope=[])
        code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
        # Required, but only where it was asked for.
        assert code.scope == "notes:read"

    run(tmp_path, story)


def test_denied_consent_returns_access_denied_and_records_an_event(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        answer = await alice.deny(await asked(alice))
        parameters = answer.told
        assert (parameters["error"], parameters["state"]) == ("access_denied", "xyz")
        assert "code" not in parameters
        assert sorted(await it.events()) == ["consent.denied", "session.started"]

    run(tmp_path, story)


def test_cancel_at_sign_in_denies_access(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        answer = await alice.follow(await alice.submit(page, "cancel", decision="deny"))
        assert answer.told["error"] == "access_denied"
        assert await it.events() == ["consent.denied"]

    run(tmp_path, story)


def test_ru_35_fields_that_were_added_to_the_form_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.register(replace(WEB, id="evil", redirect_uris=("https://evil.test/cb",)))
        alice = it.browser()
        page = await asked(alice)
        answer = await alice.allow(
            page,
            redirect_uri="https://evil.test/cb",
            client_id="evil",
            state="evil",
            code_challenge="evil",
            scope=["write", "admin", "client:read", "notes:read"],
        )
        assert answer.location.startswith("https://app.example/cb?code=")
        assert answer.told["state"] == "xyz"
        voucher = await voucher_of(it, answer.told["code"])
        code = CodePayload.decode(voucher.payload)
        assert (voucher.client_id, code.scope, code.code_challenge) == ("web1", "notes:read", "")

    run(tmp_path, story)


def test_ru_35_parameters_beside_the_sealed_ones_are_ignored(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        decided = await alice.submit(page, "allow", decision="allow")
        answer = await alice.get(f"{decided.location}&redirect_uri=https%3A%2F%2Fevil.test%2Fcb")
        assert answer.location.startswith("https://app.example/cb?code=")

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("changed", "shown"),
    [
        ({"name": "Notes Printer Pro"}, "which was <bdi>Notes Printer</bdi>"),
        ({"logo_uri": "https://app.example/logo.png"}, "its logo"),
        ({"policy_uri": "https://app.example/privacy"}, "privacy policy"),
        ({"tos_uri": "https://app.example/terms"}, "privacy policy"),
    ],
)
def test_az_17_changed_appearance_of_a_client_requires_new_consent(
    tmp_path: Path, changed: dict[str, str], shown: str
) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await asked(alice))
        assert "code" in (await alice.ask()).told
        await it.change(replace(WEB, **changed))  # type: ignore[arg-type]
        page = await alice.ask()
        assert shown in page.body
        await alice.allow(page)
        assert "code" in (await alice.ask()).told

    run(tmp_path, story)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.test"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "null", "sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
def test_lg_05_forms_of_another_origin_are_refused(tmp_path: Path, headers: dict[str, str]) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        before = await it.events()
        for button in ("allow", "deny", "switch-account"):
            action, fields = page.form(button)
            is_page(await alice.post(action, {**fields, "decision": "allow"}, headers), 403)
        own = {"origin": "null", "sec-fetch-site": "same-origin"}
        assert await it.events() == before
        action, fields = page.form("allow")
        assert (await alice.post(action, {**fields, "decision": "allow"}, own)).status == 303

    run(tmp_path, story)


@pytest.mark.parametrize("csrf", [[], ["x"], [""], ["x" * 43]], ids=str)
def test_lg_01_a_form_without_its_token_is_refused(tmp_path: Path, csrf: list[str]) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        before = await it.events()
        is_page(await alice.submit(page, "allow", decision="allow", csrf=csrf), 403)
        is_page(await alice.submit(page, "deny", decision="deny", csrf=csrf), 403)
        is_page(await alice.submit(page, "switch-account", csrf=csrf), 403)
        assert await it.events() == before

    run(tmp_path, story)


def test_lg_01_csrf_token_of_another_form_is_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        first = await alice.ask()
        token = first.form("sign-in")[1]["csrf"]
        page = await alice.sign_in(first)
        is_page(await alice.submit(page, "allow", decision="allow", csrf=token), 403)
        other = await alice.ask()
        token = other.form("allow")[1]["csrf"]
        is_page(await alice.submit(page, "allow", decision="allow", csrf=token), 403)

    run(tmp_path, story)


def test_switching_the_account_at_consent_ends_the_first_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await asked(browser)
        assert "Alice Liddell" in page.body
        sign_in = await browser.follow(await browser.submit(page, "switch-account"))
        assert "password" in sign_in.body
        page = await browser.sign_in(sign_in, "bob")
        assert "Alice" not in page.body
        answer = await browser.allow(page)
        code = CodePayload.decode((await voucher_of(it, answer.told["code"])).payload)
        assert code.uid == 1002
        assert "session.ended" in await it.events()

    run(tmp_path, story)


def test_consent_counts_only_for_the_user_who_gave_it(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await asked(browser)
        decided = await browser.submit(page, "allow", decision="allow")
        # In another tab, somebody else signs in before the answer is fetched.
        await browser.post("/oauth/sign-out", {})
        browser.cookies.pop("__Host-session")
        tab = await browser.get("/oauth/sign-in")
        await browser.submit(tab, "sign-in", username="bob", password=PASSWORD)
        page = await browser.follow(await browser.get(decided.location))
        assert page.status == 200
        assert "bob@example.com" in page.body
        assert "code.issued" not in await it.events()

    run(tmp_path, story)


def test_content_security_policy_allows_forms_to_self_and_the_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await alice.ask()
        for shown in (page, await alice.sign_in(page)):
            policy = shown.header("content-security-policy")
            assert "form-action 'self' https://app.example;" in policy
            assert "default-src 'none'" in policy
            assert shown.header("cache-control") == "no-store"
            assert shown.header("x-frame-options") == "DENY"

    run(tmp_path, story)


def test_consent_page_before_sign_in_redirects_to_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        begun = await alice.get("/oauth/authorize", client_id="web1", response_type="code")
        consent = begun.location.replace("/oauth/sign-in", "/oauth/consent")
        page = await alice.follow(await alice.get(consent))
        assert "password" in page.body
        is_page(await alice.get("/oauth/consent"), 400)

    run(tmp_path, story)


def test_consent_page_shows_how_long_access_can_last(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        assert "180 days" in (await asked(alice)).body
        await it.change(replace(WEB, grant_types=frozenset({"authorization_code"})))
        assert "1 hour" in (await alice.ask()).body

    run(tmp_path, story)


@pytest.mark.parametrize("step", ["show", "allow", "switch-account"])
def test_scope_removed_meanwhile_is_refused_at_every_step(tmp_path: Path, step: str) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        await it.change(replace(WEB, scope=Scope.of("write")))
        if step == "show":
            answer = await alice.get(page.form("allow")[0])
        else:
            answer = await alice.submit(page, step, decision="allow")
        assert answer.told["error"] == "invalid_scope"

    run(tmp_path, story)


def test_consent_after_sign_out_requires_sign_in(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        page = await asked(alice)
        alice.cookies.pop("__Host-session")
        again = await alice.allow(page)
        assert "password" in again.body
        page = await alice.sign_in(again)
        alice.cookies.pop("__Host-session")
        sign_in = await alice.follow(await alice.submit(page, "switch-account"))
        assert "code" in (await alice.allow(await alice.sign_in(sign_in))).told

    run(tmp_path, story)


def test_no_changes_are_shown_for_an_appearance_in_an_older_format(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice = it.browser()
        await alice.allow(await asked(alice))
        before = await it.store.read(lambda tx: tx.consents.find(ALICE.uid, "web1"))
        assert before is not None
        await it.store.write(lambda tx: tx.consents.save(replace(before, appearance="older")))
        page = await alice.ask()
        assert page.status == 200
        assert "since you last" not in page.body

    run(tmp_path, story)
