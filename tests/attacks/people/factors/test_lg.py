"""LG on the pages of second factors: other sites, other methods, other places, other people."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import signed_in
from tests.authorization.endpoints.account.security.factors import after_password, code, with_app
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD
from tests.support.visitors import ALICE, run
from valetkey.authorization.layout.addresses import safe_return_path

FORMS = (
    "/account/confirm",
    "/account/security/password",
    "/account/security/password/remove",
    "/account/security/passkeys/new",
    "/account/security/authenticator/new",
    "/account/security/authenticator/remove",
    "/account/security/recovery-codes",
    "/account/security/recovery-codes/download",
    "/account/security/devices",
)


@pytest.mark.parametrize("path", FORMS)
def test_lg_01_forms_of_other_sites_change_nothing(tmp_path: Path, path: str) -> None:
    async def story(it: Harness) -> None:
        alice = await signed_in(it)
        for csrf in ([], [""], ["x" * 43]):
            assert (await alice.post(path, {"csrf": csrf})).status == 403
        _, fields = (await alice.get("/account/confirm")).form("confirm")
        for headers in (
            {"origin": "https://evil.example"},
            {"sec-fetch-site": "cross-site"},
            {"origin": "null"},
        ):
            assert (await alice.post(path, fields, headers)).status == 403
        bob = await signed_in(it, "bob")
        _, theirs = (await bob.get("/account/confirm")).form("confirm")
        assert (await alice.post(path, theirs)).status == 403

    run(tmp_path, story)


def test_lg_03_get_and_head_requests_change_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        before = await it.events()
        for path in FORMS:
            for method in ("GET", "HEAD"):
                answer = await alice.send(method, f"{path}?csrf=x&_method=POST&device=x")
                assert answer.status in {200, 303, 405}
        assert await it.events() == before
        assert await it.store.read(lambda tx: tx.users.has_second_factor(ALICE.uid))

    run(tmp_path, story)


_ELSEWHERE = (
    "//evil.example",
    "https://evil.example/account",
    "/\\evil.example",
    "/account//evil.example",
    "/account/../../evil",
    "/account/./apps",
    "/account/%2e%2e/x",
    "/account/%2E%2E/x",
    "/account/%2F/evil.example",
    "/account/%5Cevil.example",
    "/account/%0A",
    "/account/%25",
    "/account/%7F",
    "/account/apps?next=https://evil.example",
    "/account/apps#x",
    "/account\t/apps",
    "/account/apps\n",
    "/account@evil.example",
    "/accounting",
    "/oauth/sign-out",
    "javascript:alert(1)",
    "/account/" + "x" * 600,
    "/account/１",
)


@pytest.mark.parametrize("to", _ELSEWHERE, ids=lambda to: repr(to[:30]))
def test_lg_11_sign_in_never_redirects_to_another_site(tmp_path: Path, to: str) -> None:
    assert safe_return_path(to) == ""

    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await browser.get("/oauth/sign-in", to=to)
        if page.status == 400:
            return
        done = await browser.submit(page, "sign-in", username="alice", password=PASSWORD)
        assert done.location == "/"
        confirm = await browser.get("/account/confirm", to=to)
        done = await browser.submit(confirm, "confirm", password=PASSWORD)
        assert done.location == "/"

    run(tmp_path, story)


@pytest.mark.parametrize(
    "to",
    [
        "/account/apps",
        "/developer",
        "/admin/users/1001",
        "/account/security/passkeys/cr_a-_",
        "/admin/groups/B%C3%BCro%20K%C3%B6ln",
        "/admin/groups/%6Eew",
        "/admin/groups/R%26D%3A%40%3F%23",
    ],
)
def test_lg_11_own_paths_are_accepted_as_return_path(to: str) -> None:
    assert safe_return_path(to) == to


def test_lg_17_password_step_alone_gives_no_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        _, key, _ = await with_app(it)
        browser = it.browser()
        page = await after_password(it, browser)
        for path in ("/account/apps", "/account/security", "/developer", "/"):
            assert "alice" not in (await browser.get(path)).body
        # Another app's request in the same browser asks for the password as well.
        assert "password" in (await browser.ask()).body
        # The step is over once it was taken.
        step = browser.cookies["__Host-step"]
        assert (await browser.submit(page, "with-code", code=code(it, key))).status == 303
        assert "__Host-step" not in browser.cookies
        browser.cookies["__Host-step"] = step
        again = await browser.submit(page, "with-code", code=code(it, key))
        assert again.status == 401

    run(tmp_path, story)


def test_lg_23_pages_with_secrets_are_not_cached(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        alice, _, _ = await with_app(it)
        page = await alice.get("/account/security/recovery-codes")
        made = await alice.submit(page, "make")
        for answer in (page, made, await alice.submit(made, "download")):
            assert answer.header("cache-control") == "no-store"
            assert answer.header("referrer-policy") == "no-referrer"

    run(tmp_path, story)
