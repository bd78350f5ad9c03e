"""LG, XS, AP: the pages on which people look after their account, against those who mean ill."""

from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import grant_of, live, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Browser
from tests.support.visitors import ALICE, BOB, WEB, run
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.account_removals import AccountRemovals
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

_FORMS: tuple[tuple[str, str, dict[str, str]], ...] = (
    ("/account/profile", "save", {"name": "Mallory", "username": "mallory"}),
    ("/account/apps/end?app=web1", "end", {"app": "web1"}),
    ("/account/apps/end-all", "end", {}),
    ("/account/data", "download", {}),
    ("/account/delete", "delete", {"username": "alice"}),
)
_SCRIPT = "<script>alert(1)</script>\" onload='x' {{ 7*7 }}"


async def _nothing_happened(it: Harness, grant: str) -> None:
    assert await live(it, ALICE) == [grant]
    assert await it.store.read(lambda tx: tx.users.find(ALICE.uid)) == ALICE
    assert await it.store.read(lambda tx: AccountRemovals(tx.db).due_at(ALICE.uid)) is None
    happened = set(await it.events())
    assert not happened & {"user.changed", "data.exported", "removal.planned", "grant.revoked"}


@pytest.mark.parametrize(("path", "button", "said"), _FORMS)
def test_lg_01_form_of_another_user_or_site_is_refused(
    tmp_path: Path, path: str, button: str, said: dict[str, str]
) -> None:
    async def story(it: Harness) -> None:
        grant = await grant_of(it, "web1", Scope.of("read"))
        await grant_of(it, "web1", Scope.of("read"), user=BOB)
        browser, bobs = await signed_in(it), await signed_in(it, "bob")
        _, good = (await browser.get(path)).form(button)
        _, foreign = (await bobs.get(path)).form(button)
        target = path.partition("?")[0]
        for fields in ({}, {**good, "csrf": ["x"]}, {**good, "csrf": foreign["csrf"]}):
            assert (await browser.post(target, {**fields, **said})).status == 403
        for headers in (
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"sec-fetch-site": "cross-site"},
        ):
            answer = await browser.post(target, {**good, **said}, headers)
            assert answer.status == 403, headers
        await _nothing_happened(it, grant)

    run(tmp_path, story)


@pytest.mark.parametrize(("path", "button", "said"), _FORMS)
def test_lg_03_only_a_form_encoded_post_request_changes_an_account(
    tmp_path: Path, path: str, button: str, said: dict[str, str]
) -> None:
    async def story(it: Harness) -> None:
        grant = await grant_of(it, "web1", Scope.of("read"))
        browser = await signed_in(it)
        _, good = (await browser.get(path)).form(button)
        more = "&".join(f"{name}={value[0]}" for name, value in good.items() if name != "app")
        glue = "&" if "?" in path else "?"
        for method in ("GET", "HEAD"):
            answer = await browser.send(method, f"{path}{glue}_method=POST&{more}")
            assert answer.status == 200
        for method in ("PUT", "PATCH", "DELETE", "OPTIONS"):
            assert (await browser.send(method, path)).status == 405
        plain = {"content-type": "text/plain"}
        assert (await browser.post(path, {**good, **said}, plain)).status == 400
        await _nothing_happened(it, grant)

    run(tmp_path, story)


def test_ap_05_other_formats_of_account_pages_reveal_nothing(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("read"))
        browser, nobody = await signed_in(it), it.browser()
        for page in ("profile", "apps", "apps/app", "activity", "sessions", "data", "delete"):
            for side in (".json", ".csv", "/1002", "/export", "%2f"):
                assert (await browser.get(f"/account/{page}{side}")).status == 404
            for query in ({}, {"format": "csv"}, {"uid": "1001"}, {"app": "web1"}):
                answer = await nobody.get(f"/account/{page}", **query)
                assert answer.status == 303, page
                assert answer.location.startswith("/oauth/sign-in")
        # A uid in the address is nobody's but the one who asks.
        assert "bob" not in (await browser.get("/account/profile", uid="1002")).body

    run(tmp_path, story)


def test_ap_07_resources_of_another_user_are_not_found(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        theirs = await grant_of(it, "nat1", Scope.of("read"), user=BOB)
        browser, bobs = await signed_in(it), await signed_in(it, "bob")
        await grant_of(it, "web1", Scope.of("read"))
        (session,) = await it.store.read(lambda tx: tx.sessions.live_of(BOB.uid, it.clock.now))
        _, fields = (await browser.get("/account/apps/end", app="web1")).form("end")
        for app in ("nat1", "nobody", theirs, "a" * 200):
            for path in ("/account/apps/app", "/account/apps/end"):
                assert (await browser.get(path, app=app)).status == 404
            assert (await browser.post("/account/apps/end", {**fields, "app": app})).status == 404
        for other in (session.id, "se_nothing", "", "\u00e9"):
            form: dict[str, str | list[str]] = {"csrf": fields["csrf"], "session": other}
            assert (await browser.post("/account/sessions", form)).status == 404
        assert await live(it, BOB) == [theirs]
        assert (await bobs.get("/account/apps")).status == 200

    run(tmp_path, story, database_url)


def test_xs_01_names_and_descriptions_are_escaped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.change(
            replace(
                WEB,
                name=_SCRIPT,
                description=_SCRIPT,
                policy_uri="javascript:alert(1)",
                tos_uri='https://evil.example/"onclick=',
            )
        )
        named = replace(ALICE, name=_SCRIPT)
        assert await it.store.write(lambda tx: tx.users.change(named))
        await grant_of(it, "web1", Scope.of("read"))
        browser = await signed_in(it)
        await _end(browser)
        await grant_of(it, "web1", Scope.of("read"))
        for path in (
            "/",
            "/account/profile",
            "/account/apps",
            "/account/apps/app?app=web1",
            "/account/apps/end?app=web1",
            "/account/apps/end-all",
            "/account/activity",
        ):
            page = await browser.send("GET", path)
            assert page.status == 200
            assert "<script>" not in page.body, path
            assert "onload='x'" not in page.body, path
            assert "javascript:" not in page.body, path
            assert "evil.example" not in page.body, path
            assert "{{ 7*7 }}" in page.body, path
        _, fields = (await browser.get("/account/data")).form("download")
        file = await browser.post("/account/data", fields)
        assert file.header("content-type") == "application/json; charset=utf-8"
        assert file.header("x-content-type-options") == "nosniff"
        assert file.header("content-disposition").startswith("attachment")

    run(tmp_path, story)


async def _end(browser: Browser) -> None:
    page = await browser.get("/account/apps/end", app="web1")
    assert (await browser.submit(page, "end")).status == 303


def test_ap_25_uid_of_a_removed_account_is_never_reassigned(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now
        await it.store.write(lambda tx: tx.account_removals.plan(ALICE.uid, now, now))
        assert await it.store.write(lambda tx: tx.account_removals.finish(ALICE.uid, now))
        await it.store.write(lambda tx: tx.account_removals.empty(ALICE.uid, now))
        again = replace(ALICE, username="alice")
        assert not await it.store.write(lambda tx: tx.users.register(again))
        other = replace(ALICE, uid=Uid(5001))
        assert await it.store.write(lambda tx: tx.users.register(other))

    run(tmp_path, story, database_url)
