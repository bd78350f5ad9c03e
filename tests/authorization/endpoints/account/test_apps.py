"""Connected apps: everything of one app is one entry, and ends with one press."""

import asyncio
import re
from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, knows, live, signed_in
from tests.authorization.pages.reading import Reading
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.storage.revocations import RevokedKind
from valetkey.authorization.storage.usage import ScopeUse
from valetkey.kernel.moment import days, hours, minutes
from valetkey.kernel.scope import Scope


async def end(browser: Browser, client_id: str) -> Answer:
    page = await browser.get("/account/apps/end", app=client_id)
    assert page.status == 200, page.body
    return await browser.submit(page, "end")


def test_connected_app_is_listed_with_name_permissions_and_date(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("notes:read", "client:read"))
        it.clock.forward(days(2))
        browser = await signed_in(it)
        page = await browser.get("/account/apps")
        assert page.status == 200
        assert "no-store" in page.header("cache-control")
        for words in ("Notes Printer", "app.example", "read your notes", "2 days ago"):
            assert knows(page, words), words
        assert "notes:read" not in page.body
        assert "Pocket Printer" not in page.body

    run(tmp_path, story, database_url)


def test_64_account_pages_at_once_are_all_answered(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("notes:read"))
        browser = await signed_in(it)
        # The overview is read by look-ups, the list of apps as a report: only few of those run.
        for path, words in (("/", "1 connected app"), ("/account/apps", "Notes Printer")):
            pages = await asyncio.gather(*(browser.get(path) for _ in range(64)))
            assert {(page.status, knows(page, words)) for page in pages} == {(200, True)}

    run(tmp_path, story, database_url)


def test_several_grants_of_one_app_are_one_entry_and_end_together(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        first = await grant_of(it, "web1", Scope.of("notes:read"))
        it.clock.forward(minutes(5))
        second = await grant_of(it, "web1", Scope.of("read"))
        other = await grant_of(it, "nat1", Scope.of("read"))
        theirs = await grant_of(it, "web1", Scope.of("read"), user=BOB)
        browser = await signed_in(it)
        page = await browser.get("/account/apps")
        assert page.body.count("<h2>") == 2
        assert knows(page, "read your notes")
        assert knows(page, "read everything of yours")
        answer = await end(browser, "web1")
        assert answer.location == "/account/apps?ended=web1"
        after = await browser.follow(answer)
        assert knows(after, "Access was revoked for")
        assert await live(it, ALICE) == [other]
        assert await live(it, BOB) == [theirs]
        assert await it.store.read(lambda tx: tx.consents.find(ALICE.uid, "web1")) is None
        feed = await it.store.read(lambda tx: tx.revocations.page(NOON, "", "", 10))
        assert {revocation.id for revocation in feed} == {first, second}
        assert {revocation.kind for revocation in feed} == {RevokedKind.GRANT}
        events = await it.events()
        assert events.count("grant.revoked") == 2
        assert events.count("consent.withdrawn") == 1

    run(tmp_path, story, database_url)


def test_a_grant_bound_to_a_session_is_listed_while_the_session_lives(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        (session,) = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
        await grant_of(it, "web1", Scope.of("read"), session_id=session.id, consent=False)
        assert knows(await browser.get("/account/apps"), "Ends when you sign out")
        await grant_of(it, "nat1", Scope.of("read"), session_id="se_gone", consent=False)
        assert "Pocket Printer" not in (await browser.get("/account/apps")).body
        await end(browser, "web1")
        assert knows(await browser.get("/account/apps"), "No connected apps")

    run(tmp_path, story, database_url)


def test_app_with_consent_but_no_grant_is_listed_as_inactive(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("read"), lasts=60)
        it.clock.forward(hours(1))
        browser = await signed_in(it)
        assert knows(await browser.get("/account/apps"), "Inactive; can reconnect without asking")
        await end(browser, "web1")
        assert "Notes Printer</bdi></h2>" not in (await browser.get("/account/apps")).body
        assert (await it.events()).count("consent.withdrawn") == 1

    run(tmp_path, story, database_url)


def test_access_of_all_apps_is_revoked_at_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        assert (await browser.get("/account/apps/end-all")).location == "/account/apps"
        await grant_of(it, "web1", Scope.of("read"))
        await grant_of(it, "nat1", Scope.of("read"))
        theirs = await grant_of(it, "web1", Scope.of("read"), user=BOB)
        page = await browser.get("/account/apps/end-all")
        assert knows(page, "Pocket Printer")
        after = await browser.follow(await browser.submit(page, "end"))
        assert knows(after, "Access was revoked for all apps")
        assert await live(it, ALICE) == []
        assert await live(it, BOB) == [theirs]

    run(tmp_path, story, database_url)


def test_app_pages_change_nothing_and_ignore_forged_results(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        grant = await grant_of(it, "web1", Scope.of("read"))
        browser = await signed_in(it)
        before = await it.events()
        for path in ("/account/apps", "/account/apps/end?app=web1", "/account/apps/end-all"):
            for method in ("GET", "HEAD"):
                assert (await browser.send(method, path)).status == 200
        for ended in ("web1", "nat1", "all", "x" * 4_000, "%00", "<b>"):
            page = await browser.get("/account/apps", ended=ended)
            assert "Access was revoked" not in page.body, ended
        assert await live(it, ALICE) == [grant]
        assert await it.events() == before

    run(tmp_path, story)


def test_page_redirects_to_sign_in_without_a_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        for path in ("/account/apps", "/account/apps/end", "/account/apps/end-all"):
            assert (await it.browser().get(path)).location == f"/oauth/sign-in?to={path}"
        for path in ("/account/apps/end", "/account/apps/end-all"):
            answer = await it.browser().post(path, {"app": "web1"})
            assert answer.location == "/oauth/sign-in"

    run(tmp_path, story)


def test_grants_of_other_users_are_not_found(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "nat1", Scope.of("read"))
        theirs = await grant_of(it, "web1", Scope.of("read"), user=BOB)
        browser = await signed_in(it)
        _, fields = (await browser.get("/account/apps/end", app="nat1")).form("end")
        for client_id in ("web1", "nobody", "", "\u00e9", "a" * 5_000):
            page = await browser.get("/account/apps/end", app=client_id)
            pressed = await browser.post("/account/apps/end", {**fields, "app": client_id})
            assert (page.status, pressed.status) == (404, 404), client_id
        assert await live(it, BOB) == [theirs]

    run(tmp_path, story, database_url)


def test_access_is_ended_only_by_the_form_of_the_own_session(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        grant = await grant_of(it, "web1", Scope.of("read"))
        browser, elsewhere = await signed_in(it), await signed_in(it)
        page = await browser.get("/account/apps/end", app="web1")
        action, fields = page.form("end")
        _, foreign = (await elsewhere.get("/account/apps/end", app="web1")).form("end")
        without = {name: value for name, value in fields.items() if name != "csrf"}
        for wrong in (without, {**fields, "csrf": ["x"]}, foreign):
            for path in (action, "/account/apps/end-all"):
                assert (await browser.post(path, wrong)).status == 403
        cross = {"origin": "https://evil.example"}
        assert (await browser.post(action, fields, cross)).status == 403
        assert await live(it, ALICE) == [grant]
        assert (await browser.post(action, fields)).status == 303
        assert (await browser.post(action, fields)).status == 303, "pressed twice"
        assert await live(it, ALICE) == []

    run(tmp_path, story)


def test_consent_page_links_to_connected_apps(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await browser.sign_in(await browser.ask())
        assert 'href="/account/apps"' in page.body

    run(tmp_path, story)


async def note(it: Harness, grant_id: str, scope: str) -> None:
    use = ScopeUse(grant_id, scope, it.clock.now)
    assert await it.store.write(lambda tx: tx.scope_uses.record(use))


def test_last_use_of_each_permission_is_shown(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        old = await grant_of(it, "nat1", Scope.of("notes:read"))
        it.clock.forward(minutes(1))
        watched = ("read", "notes:read")
        await it.store.write(lambda tx: tx.scope_uses.watch(watched, it.clock.now))
        it.clock.forward(minutes(1))
        grant = await grant_of(it, "web1", Scope.of("notes:read", "read", "write", "openid"))
        it.clock.forward(hours(2))
        await note(it, grant, "notes:read")
        it.clock.forward(minutes(3))
        browser = await signed_in(it)
        page = await browser.get("/account/apps/app", app="web1")
        assert page.status == 200
        rows = dict(
            re.findall(r'<th scope="row">(.*?)</th>\s*<td>(.*?)</td>', page.body, re.DOTALL)
        )
        uses = {" ".join(k.split()): plain(v) for k, v in rows.items()}
        assert uses["read your notes"] == "Used 3 minutes ago"
        assert uses["read everything of yours"] == "Never used"
        assert uses["change everything of yours"] == "Usage unknown"
        assert "Shared when you sign in" in uses.values()
        assert knows(page, "Other APIs do not report")
        listed = await browser.get("/account/apps")
        assert knows(listed, "Never used")
        assert "Usage unknown" not in listed.body
        other = await browser.get("/account/apps/app", app="nat1")
        assert knows(other, "Not used since <time")
        assert "not known" not in other.body.partition("<table")[2].partition("</table>")[0]
        await it.store.write(lambda tx: tx.grants.revoke(old, it.clock.now, "test"))
        assert knows(
            await browser.get("/account/apps/app", app="nat1"),
            "This app has no access at the moment",
        )

    run(tmp_path, story, database_url)


def plain(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_app_page_shows_the_browser_in_which_access_was_allowed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        (session,) = await it.store.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
        await grant_of(it, "web1", Scope.of("read"), session_id=session.id)
        page = await browser.get("/account/apps/app", app="web1")
        for words in ("Firefox on Linux", "In this browser", "Ends when you sign out"):
            assert knows(page, words), words
        await grant_of(it, "nat1", Scope.of("read"))
        assert knows(
            await browser.get("/account/apps/app", app="nat1"),
            "Unknown browser",
        )

    run(tmp_path, story)


def test_page_of_an_unconnected_app_is_not_found(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await grant_of(it, "web1", Scope.of("read"), user=BOB)
        browser = await signed_in(it)
        pages = [
            await browser.get("/account/apps/app", app=client_id)
            for client_id in ("web1", "nobody", "", "\u00e9", "\u200b", "a" * 5_000, "<b>")
        ]
        assert {page.status for page in pages} == {404}
        texts = {Reading(page.body.encode()).the("main").text for page in pages}
        assert len({re.sub(r"VK-[A-Z0-9-]+", "", text) for text in texts}) == 1

    run(tmp_path, story, database_url)
