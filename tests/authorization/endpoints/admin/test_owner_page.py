"""The owner's link in a browser: an account or a sign-in, a second factor, the role."""

from pathlib import Path

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import run
from valetkey.authorization.actions.admin.owner import OWNER_LINK_LIFETIME, fresh_link, issue_link
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.runtime import SYSTEM

WORD = "a long and good password"


async def link_of(it: Harness, *, break_glass: bool = False) -> str:
    link, key, now = fresh_link(SYSTEM.random), it.server.keyring.fingerprint_key, it.clock.now
    await it.store.write(lambda tx: issue_link(tx, link, key, now, break_glass=break_glass))
    return link.reveal()


async def opened(it: Harness, browser: Browser) -> Answer:
    """What the link shows first; it is in no address any more."""
    link = await link_of(it)
    answer = await browser.get("/admin/owner", link=link)
    assert (answer.status, answer.location) == (303, "/admin/owner")
    page = await browser.follow(answer)
    assert link not in page.body
    return page


async def protect(it: Harness, username: str) -> None:
    """A second factor, and that it was proved in this session."""

    def work(tx: Transaction) -> None:
        user = tx.users.find_by_name(username)
        assert user is not None
        tx.db.run(
            "INSERT INTO credentials (id, uid, kind, data, created_at)"
            " VALUES ('cr_totp', :uid, 'totp', '', 0)",
            uid=user.uid,
        )
        tx.db.run("UPDATE sessions SET proved_by = 'pwd otp' WHERE uid = :uid", uid=user.uid)

    await it.store.write(work)


async def roles(it: Harness) -> list[tuple[str, Role | None]]:
    def work(tx: Transaction) -> list[tuple[str, Role | None]]:
        users = [tx.users.find(uid) for uid in tx.user_directory.with_roles(9)]
        return [(user.username, user.role) for user in users if user is not None]

    return await it.store.read(work)


def test_ad_01_new_account_becomes_owner_with_a_second_factor(
    tmp_path: Path,
    database_url: str,
) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await opened(it, browser)
        answer = await browser.submit(
            page, "make", username="olive", email="olive@example.com", password=WORD
        )
        assert answer.location == "/admin/owner", answer.body
        page = await browser.follow(answer)
        assert knows(page, "An owner needs a second factor")
        # Nothing is theirs yet.
        assert (await browser.get("/admin")).status == 404
        assert await roles(it) == []
        await protect(it, "olive")
        page = await browser.get("/admin/owner")
        answer = await browser.submit(page, "become")
        assert answer.location == "/admin"
        assert (await browser.follow(answer)).status == 200
        assert await roles(it) == [("olive", Role.OWNER)]
        # It is over for everybody, with whatever cookie.
        assert (await browser.get("/admin/owner")).status == 404

    run(tmp_path, story, database_url)


def test_ad_01_signed_in_user_becomes_owner_with_a_second_factor(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await opened(it, browser)
        assert knows(page, "You are signed in as")
        assert 'id="become"' not in page.body
        await protect(it, "alice")
        page = await browser.get("/admin/owner")
        answer = await browser.submit(page, "become")
        assert answer.location == "/admin"
        assert await roles(it) == [("alice", Role.OWNER)]
        assert "owner_link.redeemed" in await it.events()

    run(tmp_path, story)


def test_ad_01_expired_or_invalid_owner_link_assigns_no_role(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await opened(it, browser)
        await protect(it, "alice")
        page = await browser.get("/admin/owner")
        for link in ("", "x", "vk_ln_", "\0", "é" * 9_00):
            answer = await it.browser().get("/admin/owner", link=link)
            assert answer.status in {400, 404}, link
        assert (await it.browser().get("/admin/owner")).status == 404
        it.clock.forward(OWNER_LINK_LIFETIME)
        answer = await browser.submit(page, "become")
        assert answer.status == 404
        assert knows(answer, "Link expired")
        assert await roles(it) == []

    run(tmp_path, story)


def test_invalid_owner_account_is_reported_at_its_fields(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await opened(it, browser)
        answer = await browser.submit(
            page, "make", username="o live", email="olive", name="O" * 300, password="short"
        )
        assert answer.status == 400
        for field in ("username", "email", "name", "password"):
            assert f'id="{field}-fault"' in answer.body, field
        assert 'value="o live"' in answer.body
        assert "short" not in answer.body.replace("shorter", "")
        answer = await browser.submit(
            answer, "make", username="alice", email="other@example.com", name="", password=WORD
        )
        assert 'id="username-fault"' in answer.body
        answer = await browser.submit(
            answer, "make", username="olive", email="o@example.com", name="", password="olive123"
        )
        assert answer.status == 303
        user = await it.store.read(lambda tx: tx.users.find_by_name("olive"))
        assert user is not None
        assert user.email_verified_at is not None

    run(tmp_path, story)


def test_owner_account_requires_the_link_and_a_valid_csrf_value(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        page = await opened(it, browser)
        _, fields = page.form("make")
        good = {**fields, "username": ["olive"], "email": ["o@example.com"], "password": [WORD]}
        stranger = it.browser()
        assert (await stranger.post("/admin/owner/account", good)).status == 404
        evil = {"origin": "https://evil.example"}
        assert (await browser.post("/admin/owner/account", good, evil)).status == 403
        assert (await browser.post("/admin/owner/account", {**good, "csrf": ["x"]})).status == 403
        assert await it.store.read(lambda tx: tx.users.find_by_name("olive")) is None

    run(tmp_path, story)
