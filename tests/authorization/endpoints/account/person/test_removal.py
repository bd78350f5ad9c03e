"""The end of an account: asked twice, called off by signing in, and thorough in the end."""

import asyncio
from pathlib import Path

from tests.authorization.endpoints.account.people import grant_of, knows, live, signed_in
from tests.support.harness import NOON, Harness
from tests.support.plain_browser import PASSWORD, Answer, Browser
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.actions.account.removal import Removal
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.event.event import CLI
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.storage.account_removals import KEPT
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import MailSettings
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import days, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.scope import Scope

PATH = "/account/delete"
DEED = Removal(
    "https://id.example",
    MailOutbox(MailSettings(), Keyring.fresh(SYSTEM.random), SYSTEM.random),
    days(7),
)


async def press(browser: Browser, name: str = "alice") -> Answer:
    page = await browser.get(PATH)
    assert page.status == 200, page.location
    return await browser.submit(page, "delete", username=name)


async def alice(it: Harness) -> User:
    user = await it.store.read(lambda tx: tx.users.find(ALICE.uid))
    assert user is not None
    return user


async def sweep(it: Harness) -> int:
    return await it.store.write(lambda tx: DEED.sweep(tx, it.clock.now))


def test_account_removal_lists_and_ends_all_access(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        grant = await grant_of(it, "web1", Scope.of("read"))
        phone, browser = await signed_in(it), await signed_in(it)
        page = await browser.get(PATH)
        assert knows(page, "1 connected app loses its access")
        assert knows(page, "all 2 browsers")
        wrong = await browser.submit(page, "delete", username="bob")
        assert wrong.status == 400
        assert knows(wrong, "This is not your username. Nothing was deleted.")
        assert 'value="bob"' in wrong.body
        done = await press(browser, "ALICE")
        assert done.status == 200
        assert knows(done, "22 Jan 2027, 08:00:00 UTC")
        for device in (phone, browser):
            assert (await device.get("/account/apps")).status == 303
        assert await live(it, ALICE) == []
        feed = await it.store.read(lambda tx: tx.revocations.page(NOON, "", "", 10))
        assert [revocation.id for revocation in feed] == [grant]
        it.clock.forward(days(7) - 1)
        assert await sweep(it) == 0
        it.clock.forward(1)
        assert await sweep(it) == 1
        assert await sweep(it) == 0
        user = await alice(it)
        assert (user.name, user.email, user.claims) == ("", "", type(user.claims)())
        assert user.disabled_at == it.clock.now
        names = await it.events()
        assert names.count("removal.planned") == names.count("user.removed") == 1
        page = await it.browser().get("/oauth/sign-in")
        for name in ("alice", "alice@example.com", user.username):
            refused = await it.browser().submit(page, "sign-in", username=name, password=PASSWORD)
            assert refused.status != 303, name

    run(tmp_path, story, database_url)


def test_signing_in_cancels_the_removal(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await press(await signed_in(it))
        it.clock.forward(days(3))
        browser = await signed_in(it)
        assert knows(
            await browser.get("/account/activity"),
            "You signed in again, so your account is not deleted",
        )
        it.clock.forward(days(30))
        assert await sweep(it) == 0
        assert (await alice(it)).username == "alice"
        assert (await it.events()).count("removal.cancelled") == 1

    run(tmp_path, story, database_url)


def test_username_is_free_after_removal_but_uid_is_not(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.store.write(lambda tx: DEED.remove(tx, ALICE, it.clock.now), done_by=CLI)
        again = replace(ALICE, uid=Uid(2001))
        assert not await it.store.write(lambda tx: tx.users.register(replace(ALICE, username="x")))
        assert await it.store.write(lambda tx: tx.users.register(again))
        gone = await alice(it)
        keeper = Accounts(SYSTEM.random)
        assert not await it.store.write(lambda tx: keeper.enable(tx, gone, it.clock.now))
        assert not await it.store.write(lambda tx: DEED.remove(tx, gone, it.clock.now))

    run(tmp_path, story, database_url)


def test_sole_owner_of_an_app_or_the_server_cannot_be_removed(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        page = await browser.get(PATH)
        mine = Membership("web1", ALICE.uid, TeamRole.OWNER, it.clock.now)
        assert await it.store.write(lambda tx: tx.members.add(mine))
        late = await browser.submit(page, "delete", username="alice")
        assert late.status == 409
        assert knows(late, "You are the only owner of these apps")
        assert "Notes Printer" in (await browser.get(PATH)).body
        theirs = replace(mine, uid=BOB.uid)
        assert await it.store.write(lambda tx: tx.members.add(theirs))
        page = await browser.get(PATH)
        await it.store.write(
            lambda tx: tx.user_directory.set_role(ALICE.uid, Role.OWNER, it.clock.now)
        )
        last = await browser.submit(page, "delete", username="alice")
        assert last.status == 409
        assert knows(last, "You are the only owner of this server")
        assert "removal.planned" not in await it.events()

    run(tmp_path, story, database_url)


def test_parallel_sweeps_remove_an_account_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await press(await signed_in(it))
        it.clock.forward(days(8))
        assert sum(await asyncio.gather(*(sweep(it) for _ in range(16)))) == 1
        assert (await it.events()).count("user.removed") == 1

    run(tmp_path, story, database_url)


def test_recent_authentication_is_required(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it)
        _, fields = (await browser.get(PATH)).form("delete")
        it.clock.forward(minutes(11))
        assert (await browser.get(PATH)).location == "/account/confirm?to=/account/delete"
        answer = await browser.post(PATH, {**fields, "username": "alice"})
        assert answer.location == "/account/confirm?to=/account/delete&repeat=yes"
        other = await signed_in(it, "bob")
        assert (await other.post(PATH, {**fields, "username": "bob"})).status == 403
        assert "removal.planned" not in await it.events()

    run(tmp_path, story)


def test_no_table_keeps_the_uid_of_a_removed_user(tmp_path: Path) -> None:
    """Every table with a column `uid` gets a row of alice's: none is left, or it says why."""

    async def story(it: Harness) -> None:
        def fill(tx: Transaction) -> list[str]:
            named: list[str] = []
            tx.db.run(
                "INSERT INTO apis (id, key, identifier, name, access_token_format,"
                " signing_algorithm, shares_scopes, created_at, changed_at, generation)"
                " VALUES ('api_1', 'k', 'i', 'n', 'jwt', '', 0, 1, 1, 0)"
            )
            for (table,) in tx.db.rows("SELECT name FROM sqlite_master WHERE type = 'table'"):
                columns = tx.db.rows(
                    f"SELECT name, type, \"notnull\" OR pk FROM pragma_table_info('{table}')"
                )
                if "uid" not in {name for name, _, _ in columns}:
                    continue
                named.append(table)
                values: dict[str, object] = {"uid": ALICE.uid}
                for name, kind, needed in columns:
                    if needed and name != "uid":
                        number = 0 if name == "generation" else 1
                        values[name] = number if kind == "BIGINT" else f"{table} x"
                there = {"api_id": "api_1", "client_id": "web1"}
                values |= {name: value for name, value in there.items() if name in values}
                if table not in {*KEPT, "credentials"}:
                    marks = ", ".join(f":{name}" for name in values)
                    into = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})"
                    assert tx.db.run(into, **values) == 1
            return named

        tables = await it.store.write(fill)
        assert len(tables) > 12
        assert set(KEPT) <= set(tables)
        await it.store.write(lambda tx: DEED.remove(tx, ALICE, it.clock.now))
        for table in sorted(set(tables) - set(KEPT)):
            sql = f"SELECT count(*) FROM {table} WHERE uid = :uid"
            row = await it.store.read(lambda tx, sql=sql: tx.db.row(sql, uid=ALICE.uid))  # type: ignore[misc]
            assert row == (0,), f"{table}: remove its rows, or say in KEPT why they stay"

    run(tmp_path, story)
