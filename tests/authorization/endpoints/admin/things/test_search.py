"""The search of the console and of the developer portal: what is found, by whom, and how much."""

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

from tests.authorization.endpoints.admin.things.desk import WORD, administrator, do, page
from tests.authorization.endpoints.developer.developers import join, text_of
from tests.support.harness import ADA, Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.client import TeamRole
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.storage.transaction import Transaction

ADMIN, DEVELOPER = "/admin/search", "/developer/search"


async def found(browser: Browser, text: str, area: str = ADMIN) -> list[str]:
    """The addresses that the page of results links to."""
    shown = (await page(browser, f"{area}?q={quote(text, safe='')}")).body
    results = shown.partition('id="found"')[2].partition("data-search-key")[0]
    return [unescape(url) for url in re.findall(r'<a\b[^>]*href="([^"]+)"', results)]


async def _users(it: Harness, *names: str) -> None:
    def work(tx: Transaction) -> None:
        for number, name in enumerate(names):
            record = UserRecord(name, f"{name}@example.com", name.title())
            it.foundation.accounts().register(tx, record, it.clock.now, uid=Uid(3001 + number))

    await it.write(work)


def test_objects_are_found_by_name_id_and_description(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _users(it, "grace")
        await it.client("printer", name="Notes Printer")
        await do(browser, "/admin/groups/new", name="notaries", description="They certify")
        await do(
            browser, "/admin/apis/new", name="Calendar", identifier="https://calendar.example/"
        )

        for text in ("grace", "GRA", "grace@example.com", "3001", "race"):
            assert "/admin/users/3001" in await found(browser, text), text
        for text in ("printer", "Notes", "s print"):
            assert "/admin/clients/printer" in await found(browser, text), text
        for text in ("notaries", "NOTAR", "certify"):
            assert "/admin/groups/notaries" in await found(browser, text), text
        for text in ("calendar", "calendar.example"):
            urls = await found(browser, text)
            assert [url for url in urls if url.startswith("/admin/apis/")], text
        assert "/admin/keys" in await found(browser, "signing keys")
        assert "/admin/settings?q=sessions.idle" in await found(browser, "sessions.idle")
        assert await found(browser, "nothing has this name") == []

    run(tmp_path, story)


def test_pages_are_found_in_the_language_of_the_administrator_and_in_english(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        browser.cookies["valetkey-language"] = "de"
        for text in ("Signaturschlüssel", "signing keys"):
            assert "/admin/keys" in await found(browser, text), text

    run(tmp_path, story)


def test_five_of_a_kind_are_shown_and_a_link_lists_all(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _users(it, *(f"robot{number}" for number in range(60)))
        for number in range(7):
            await it.client(f"robot{number}", name=f"Robot {number}")

        urls = await found(browser, "robot")
        users = [url for url in urls if re.fullmatch(r"/admin/users/\d+", url)]
        apps = [url for url in urls if url.startswith("/admin/clients/")]
        assert len(users) == len(apps) == 5
        assert {"/admin/users?q=robot", "/admin/clients?q=robot"} <= set(urls)
        shown = text_of(await page(browser, f"{ADMIN}?q=robot"))
        assert "All results (over 50)" in shown
        assert "All results (7)" in shown

    run(tmp_path, story)


def test_app_is_found_by_name_beyond_the_number_of_scanned_apps(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await it.client("first", name="Quill")
        it.clock.forward(60)
        await it.client("other", name="Other")
        copies = "INSERT INTO clients SELECT {} FROM clients WHERE id = 'other'"

        def many(tx: Transaction) -> None:
            columns = [row[1] for row in tx.db.rows("PRAGMA table_info(clients)")]
            named = ", ".join(f"'other-' || :n AS {c}" if c == "id" else c for c in columns)
            for n in range(2_001):
                tx.db.run(copies.format(named), n=n)

        await it.write(many)
        assert "/admin/clients/first" in await found(browser, "quill")
        assert "/admin/clients/first" in await found(browser, "qui")

    run(tmp_path, story)


def test_deleted_objects_are_not_found(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _users(it, "quentin")
        await it.client("printer", name="Notes Printer")
        await do(browser, "/admin/groups/new", name="notaries")
        await do(browser, "/admin/users/3001/delete")
        await do(browser, "/admin/clients/printer/delete")
        await do(browser, "/admin/groups/notaries/delete")
        for text in ("quentin", "3001", "printer", "notaries"):
            assert await found(browser, text) == [], text

    run(tmp_path, story)


def test_special_characters_in_a_search_are_escaped(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _users(it, "grace")
        for text in (
            "%",
            "_",
            "'",
            '"><b>',
            "\x00",
            "\u202e",
            "\U0010ffff",
            "a" * 5_000,
            "\\",
            "VK-",
        ):
            assert "/admin/users/3001" not in await found(browser, text), text
        shown = (await page(browser, f"{ADMIN}?q={quote('<script>alert(1)</script>')}")).body
        assert "<script>alert" not in shown
        assert (await browser.get(f"{ADMIN}?q=%ff")).status == 400
        assert (await page(browser, ADMIN)).body.count("/admin/keys") >= 2

    run(tmp_path, story)


async def _refusal(it: Harness, client_id: str) -> str:
    """Cause an error about this app, and return its reference."""
    asker = Browser(it.app, host="localhost:8400", scheme="http")
    answer = await asker.get(
        f"/oauth/authorize?client_id={client_id}&redirect_uri=https://wrong.example/&response_type=code"
    )
    await it.refusals_recorded()
    reference = re.search(r"VK-[0-9A-Z-]{14}", answer.body)
    assert reference is not None, answer.body
    return reference[0]


def test_an_error_is_found_by_its_reference(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        reference = await _refusal(it, "web")
        for typed in (reference, reference.lower(), reference.replace("-", " ")):
            [url] = [
                address for address in await found(browser, typed) if "/admin/events" in address
            ]
            assert reference in (await page(browser, url)).body
        assert await found(browser, "VK-0000-0000-0000") == []

    run(tmp_path, story)


def test_search_results_open_for_every_role_and_others_cannot_search(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _users(it, "grace")
        await it.client("printer", name="Notes Printer")
        for role in Role:
            browser = await administrator(it, role)
            for text in ("grace", "printer", "sessions.idle", "keys", "n"):
                for url in await found(browser, text):
                    assert (await browser.get(url)).status == 200, (role, url)
        nobody = await administrator(it, None)
        assert (await nobody.get(f"{ADMIN}?q=grace")).status == 404
        stranger = Browser(it.app, host="localhost:8400", scheme="http")
        answer = await stranger.get(f"{ADMIN}?q=grace")
        assert answer.status == 303
        assert answer.location.startswith("/oauth/sign-in")

    run(tmp_path, story)


def test_search_is_refused_after_the_role_was_removed(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it, Role.AUDITOR)
        assert f"/admin/users/{ADA}" in await found(browser, "ada")
        await it.write(lambda tx: tx.user_directory.set_role(ADA, None, it.clock.now))
        assert (await browser.get(f"{ADMIN}?q=ada")).status == 404

    run(tmp_path, story)


async def _developer(it: Harness) -> Browser:
    """Alice, who has no role, signed in."""
    await it.password(WORD)
    hashed = await it.read(lambda tx: tx.users.password_hash(ADA))
    assert hashed is not None
    record = UserRecord("alice", "alice@example.com", "Alice", email_verified=True)
    accounts, now = it.foundation.accounts(), it.clock.now
    await it.write(
        lambda tx: accounts.register(tx, record, now, uid=Uid(3000), password_hash=hashed)
    )
    browser = Browser(it.app, host="localhost:8400", scheme="http")
    await browser.sign_in(await browser.get("/oauth/sign-in"), "alice", WORD)
    return browser


def test_developer_finds_own_apps_their_pages_and_their_team(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("mine", name="Notes Printer")
        browser = await _developer(it)
        alice = await it.read(lambda tx: tx.users.find_by_username("alice"))
        assert alice is not None
        await join(it, "mine", alice)

        assert "/developer/apps/mine" in await found(browser, "notes", DEVELOPER)
        assert "/developer/apps/mine" in await found(browser, "", DEVELOPER)
        for text in ("requests", "printer requests", "notes req"):
            urls = await found(browser, text, DEVELOPER)
            assert "/developer/apps/mine/requests" in urls, (text, urls)
        assert "/developer/apps/mine/team" in await found(browser, "alice", DEVELOPER)
        reference = await _refusal(it, "mine")
        assert await found(browser, reference, DEVELOPER) == [
            f"/developer/apps/mine/failures/{reference}"
        ]
        for text in ("notes", "a", ""):
            for url in await found(browser, text, DEVELOPER):
                status = (await browser.get(url)).status
                # Secrets and the team ask for the password first.
                assert status in {200, 303}, url

    run(tmp_path, story)


def test_developer_does_not_find_objects_of_others(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("theirs", name="Their Printer")
        browser = await _developer(it)
        ada = await it.read(lambda tx: tx.users.find(ADA))
        assert ada is not None
        await join(it, "theirs", ada, TeamRole.OWNER)
        reference = await _refusal(it, "theirs")
        for text in ("theirs", "printer", "ada", str(ADA), reference, "sessions.idle", "keys"):
            assert await found(browser, text, DEVELOPER) == [], text
        shown = await page(browser, DEVELOPER)
        assert "Their Printer" not in shown.body
        assert "/admin" not in shown.body
        assert (await browser.get(f"{ADMIN}?q=printer")).status == 404

    run(tmp_path, story)
