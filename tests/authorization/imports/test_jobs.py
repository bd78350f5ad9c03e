"""Imports of users: checked, imported once each, continued after a kill, and stopped."""

import asyncio
import base64
import csv
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.people import give
from tests.support.harness import Harness
from tests.support.plain_browser import PASSWORD, Answer
from tests.support.visitors import ALICE, run
from valetkey.authorization.actions.admin.permissions import (
    Actor,
    ActorPermissions,
    CommandLine,
    permissions_of,
)
from valetkey.authorization.actions.users import Accounts, UserRecord
from valetkey.authorization.authentication.password import is_current
from valetkey.authorization.imports.jobs import UserImporter
from valetkey.authorization.imports.jobs import sweep as sweep_imports
from valetkey.authorization.imports.model import (
    ImportKind,
    ImportState,
    RowState,
    UserImport,
)
from valetkey.authorization.imports.rules.users import (
    BATCH,
    MOST_OPEN,
    REPORT_LIFETIME,
    UPLOAD_LIFETIME,
    WAITING_LIFETIME,
    ImportUpload,
    ImportWork,
    report,
)
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.model.event.event import DoneBy, by_cli, by_user
from valetkey.authorization.model.user import Group, Role, StandardClaims, Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.secret import fresh_id
from valetkey.testing.server import QUICK_PASSWORDS

_HASH = "pbkdf2_sha256$1000$c2FsdA$H6JYY64V0SDtmN+fhcPP8OOXlkn6yZvwPPo+7J55GNs="
_CLI = CommandLine(by_cli("root"))


@dataclass(frozen=True, slots=True)
class _Administrator:
    """A user with the role that the account has now."""

    uid: Uid

    @property
    def done_by(self) -> DoneBy:
        return by_user(self.uid)

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        user = tx.users.find(self.uid)
        return permissions_of(user.role if user else None)


@dataclass(frozen=True, slots=True)
class _Imports:
    """Imports in a world, and workers that do them."""

    it: Harness

    @property
    def uploads(self) -> ImportUpload:
        return ImportUpload(self.it.store, SYSTEM.random, 20_000)

    @property
    def work(self) -> ImportWork:
        return ImportWork(Accounts(SYSTEM.random))

    @property
    def worker(self) -> UserImporter:
        return UserImporter(
            self.it.store, self.work, Runtime(lambda: self.it.clock.now, SYSTEM.random)
        )

    async def checked(self, content: str, actor: Actor = _CLI, name: str = "users.csv") -> str:
        """Receive a file and check it; return the import."""
        now = self.it.clock.now
        import_id = await self.uploads.receive(actor, name, content.encode(), now)
        await self.finish()
        return import_id

    async def finish(self) -> None:
        while await self.worker.process_stage():
            pass

    async def move(self, import_id: str, after: ImportState) -> bool:
        return await self.uploads.move(_CLI, import_id, after, self.it.clock.now)

    async def imported(self, content: str, name: str = "users.csv") -> str:
        import_id = await self.checked(content, name=name)
        assert await self.move(import_id, ImportState.IMPORTING)
        await self.finish()
        return import_id

    async def find(self, import_id: str) -> UserImport | None:
        return await self.it.store.read(lambda tx: UserImports.of(tx).find(import_id))

    async def state(self, import_id: str) -> ImportState:
        user_import = await self.find(import_id)
        assert user_import is not None
        return user_import.state

    async def counts(self, import_id: str) -> Mapping[RowState, int]:
        return await self.it.store.read(lambda tx: UserImports.of(tx).counts(import_id))

    async def report(self, import_id: str) -> list[list[str]]:
        content = b"".join([piece async for piece in report(self.it.store, import_id)])
        assert content.startswith(b"\xef\xbb\xbfrow")
        text = content.decode("utf-8-sig")
        heading, *rows = csv.reader(StringIO(text, newline=""))
        assert heading == ["row", "username", "email", "result", "reason"]
        return rows


_HASHES = {
    "werkzeug": "pbkdf2:sha256:1000$d63bkSsl$"
    "f41e1febf790f1aea0b278333651f9ba8e19b98a3b3b820d89ae1ca18c3b9276",
    "wordpress": "$P$6saltTest1nCzOLugpk4YQBzlDGp05/",
    "ldap": "{SSHA}awc/Cj0kafyFd5d8fGn07xoHBJJzYWx0c2FsdA==",
    "unix": "$6$rounds=1000$saltForTests$kara04ZVdyw1RDH2dKf9uHVOEu6wA0.5ErnuD6iWcPcZCNPDA67/"
    "mysN9LBULMu2PbtKC4vplSa6oBAS7tXOu0",
}
_UNVERIFIABLE = {
    "salted": "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$MDEyMzQ1Njc4OWFiY2RlZg",
    "narrow": "$scrypt$ln=16,r=1,p=1$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZg",
    "giant": "$argon2id$v=19$m=99999999,t=1,p=1$c2FsdHNhbHQ$MDEyMzQ1Njc4OWFiY2RlZg",
    "broken": "$argon2id$",
}


_LOOSE = """username,email,birthdate,locale,phone_number,zoneinfo,groups
ada2,ada2@example.com,1990-2-1,en_GB,+44 (0)20 7946-0000,Europe/Berlin,staff;printers
bob2,bob2@example.com,12.03.1990,English please,call me,Berlin,staff
"""


def test_users_are_imported_without_what_is_wrong_with_their_profile(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)
        group = Group("gr_1", "staff", "", "", it.clock.now)
        await it.write(lambda tx: tx.groups.create(group, ""))
        ada, bob = await imports.report(await imports.imported(_LOOSE))
        assert ada[3:] == ["created", "groups: there is no group printers"]
        assert bob[3] == "created"
        # As many reasons as fit.
        assert re.findall(r"(\w+): must be", bob[4]) == ["birthdate", "zoneinfo", "locale"]
        first = await it.read(lambda tx: tx.users.find_by_username("ada2"))
        second = await it.read(lambda tx: tx.users.find_by_username("bob2"))
        assert first is not None
        assert second is not None
        assert first.claims == StandardClaims(
            birthdate="1990-02-01",
            locale="en-GB",
            phone_number="+442079460000",
            zoneinfo="Europe/Berlin",
        )
        assert second.claims == StandardClaims.NOTHING
        groups = await it.read(lambda tx: [tx.groups.direct(user.uid) for user in (first, second)])
        assert [[group.name for group in direct] for direct in groups] == [["staff"]] * 2

    run(tmp_path, story, database_url)


def test_accepted_hashes_sign_in_and_unverifiable_ones_are_refused(tmp_path: Path) -> None:
    rows = [
        {"username": name, "email": f"{name}@example.com", "password_hash": password_hash}
        for name, password_hash in (_HASHES | _UNVERIFIABLE).items()
    ]

    async def story(it: Harness) -> None:
        imports = _Imports(it)
        import_id = await imports.imported(json.dumps(rows), name="users.json")
        results = {row[1]: row[3:] for row in await imports.report(import_id)}
        for name in _HASHES:
            assert results[name] == ["created", ""]
            assert 'id="allow"' in (await _sign_in(it, name)).body
        assert {results[name][1] for name in _UNVERIFIABLE} == {
            "password_hash: incomplete, or its salt or its digest is too short",
            "password_hash: too costly to verify",
            "password_hash: unknown format",
        }
        for stored in _UNVERIFIABLE.values():
            await it.store.write(
                partial(_store_hash, username="werkzeug", stored=stored, now=it.clock.now)
            )
            assert (await _sign_in(it, "werkzeug")).status == 401

    run(tmp_path, story)


async def _sign_in(it: Harness, username: str) -> Answer:
    browser = it.browser()
    return await browser.sign_in(await browser.ask(), username, "correct horse")


def _store_hash(tx: Transaction, username: str, stored: str, now: Instant) -> None:
    user = tx.users.find_by_username(username)
    assert user is not None
    tx.users.set_password_hash(user.uid, fresh_id("cr", SYSTEM.random), stored, now)


def _file(count: int, first: int = 0) -> str:
    numbers = range(first, first + count)
    return "username,email\n" + "".join(f"person{n},person{n}@example.net\n" for n in numbers)


def test_dry_run_changes_nothing_and_import_reports_every_row(
    tmp_path: Path, database_url: str
) -> None:
    content = (
        "username,email,uid,password_hash\n"
        f"carl,carl@example.com,17,{_HASH}\n"
        "alice,other@example.com,,\n"
        "dora,Alice@example.com,,\n"
        "eve,eve@example.com,1001,\n"
        "fred,fred@example.com,,plain\n"
        "a b,g@example.com,,\n"
        "=cmd,h@example.com,,\n"
        "late,late@example.com,,\n"
    )

    async def story(it: Harness) -> None:
        imports = _Imports(it)
        events = await it.events()
        import_id = await imports.checked(content)
        assert await it.count("users") == 2
        assert await it.events() == events
        assert [row[3] for row in await imports.report(import_id)] == [
            *("can be imported", "already exists", "already exists", "already exists"),
            *("fault", "fault", "can be imported", "can be imported"),
        ]
        # Between the check and the import, the name is taken.
        record = UserRecord("late", "later@example.com")
        await it.store.write(lambda tx: Accounts(SYSTEM.random).register(tx, record, it.clock.now))
        assert await imports.move(import_id, ImportState.IMPORTING)
        await imports.finish()
        assert await imports.state(import_id) is ImportState.FINISHED
        rows = await imports.report(import_id)
        assert rows[0] == ["2", "carl", "carl@example.com", "created", ""]
        assert rows[1][3:] == [
            "already exists",
            "username: an account with this name already exists",
        ]
        assert rows[2][3:] == [
            "already exists",
            "email: an account with this address already exists",
        ]
        assert rows[3][3:] == ["already exists", "uid: an account with this number already exists"]
        assert rows[4][3:] == ["fault", "password_hash: unknown format"]
        assert rows[5][4].startswith("username: ")
        assert rows[6] == ["8", "'=cmd", "h@example.com", "created", ""]
        assert rows[7][3:] == [
            "already exists",
            "username: an account with this name already exists",
        ]
        carl = await it.store.read(lambda tx: tx.users.find_by_username("carl"))
        assert carl is not None
        assert (carl.uid, carl.email_verified_at) == (17, it.clock.now)
        stored = await it.store.read(lambda tx: tx.users.password_hash(carl.uid))
        assert stored == _HASH
        # What the file said is not kept.
        assert await _kept(it) == 0
        page = await it.store.read(lambda tx: tx.events.page(Instant(0), "", 1_000))
        actors = {event.name: event.done_by for event in page if event.name.startswith("user")}
        assert set(actors) == {"user_import.started", "user.registered", "user_import.finished"}
        assert actors["user_import.finished"] == by_cli("root")
        (finished,) = [event for event in page if event.name == "user_import.finished"]
        figures = {"created": 2, "existing": 4, "failed": 2}
        assert json.loads(finished.data) == {"import_id": import_id, **figures}

    run(tmp_path, story, database_url)


async def _kept(it: Harness) -> int:
    row = await it.store.read(
        lambda tx: tx.db.row("SELECT count(*) FROM user_import_rows WHERE data <> ''")
    )
    assert row is not None
    return int(row[0])


def test_64_parallel_workers_create_each_user_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)
        content = _file(8 * BATCH)
        one, other = await imports.checked(content), await imports.checked(content)
        moved = await asyncio.gather(
            *(
                imports.move(import_id, ImportState.IMPORTING)
                for import_id in (one, other)
                for _ in range(8)
            )
        )
        assert moved.count(True) == 2
        await asyncio.gather(*(_step_until_over(imports, (one, other)) for _ in range(64)))
        counts = [await imports.counts(import_id) for import_id in (one, other)]
        assert sum(row_counts.get(RowState.CREATED, 0) for row_counts in counts) == 8 * BATCH
        assert sum(row_counts.get(RowState.EXISTS, 0) for row_counts in counts) == 8 * BATCH
        assert await it.count("users") == 2 + 8 * BATCH
        assert (await it.events()).count("user.registered") == 8 * BATCH
        assert (await it.events()).count("user_import.finished") == 2

    run(tmp_path, story, database_url)


async def _step_until_over(imports: _Imports, ids: tuple[str, ...]) -> None:
    for import_id in ids:
        while True:
            user_import = await imports.find(import_id)
            assert user_import is not None
            if not user_import.is_due:
                break
            await imports.it.store.write(_stepping(imports, user_import))


def _stepping(
    imports: _Imports, user_import: UserImport
) -> Callable[[Transaction], UserImport | None]:
    return lambda tx: imports.work.step(tx, user_import, imports.it.clock.now)


def test_import_of_a_killed_worker_is_continued_by_another(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)
        import_id = await imports.checked(_file(3 * BATCH))
        assert await imports.move(import_id, ImportState.IMPORTING)
        user_import = await imports.find(import_id)
        assert user_import is not None
        # One batch is committed; the worker dies in the middle of the next one.
        after = await it.store.write(_stepping(imports, user_import))
        assert after is not None

        def dies(tx: Transaction) -> None:
            imports.work.step(tx, after, it.clock.now)
            raise RuntimeError("killed")

        with pytest.raises(RuntimeError):
            await it.store.write(dies)
        assert not await imports.worker.process_stage()
        it.clock.forward(10)
        await imports.finish()
        assert await imports.state(import_id) is ImportState.FINISHED
        assert await imports.counts(import_id) == {RowState.CREATED: 3 * BATCH}
        assert await it.count("users") == 2 + 3 * BATCH

    run(tmp_path, story, database_url)


def test_import_stops_when_administrator_loses_the_role(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)
        await give(it, Role.ADMINISTRATOR)
        import_id = await imports.checked(_file(2 * BATCH), _Administrator(ALICE.uid))
        assert await imports.move(import_id, ImportState.IMPORTING)
        user_import = await imports.find(import_id)
        assert user_import is not None
        await it.store.write(_stepping(imports, user_import))
        await give(it, Role.SUPPORT)
        it.clock.forward(10)
        await imports.finish()
        assert await imports.state(import_id) is ImportState.STOPPED
        assert await imports.counts(import_id) == {RowState.CREATED: BATCH, RowState.FAULTY: BATCH}
        assert (await imports.report(import_id))[-1][4] == "the import was stopped"
        assert await _kept(it) == 0

    run(tmp_path, story)


def test_discarded_file_and_file_with_a_late_fault_are_cleared(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)
        discarded = await imports.checked(_file(BATCH))
        assert await imports.move(discarded, ImportState.STOPPED)
        assert not await imports.move(discarded, ImportState.IMPORTING)
        late = f'{_file(300)}broken,"'
        with pytest.raises(OperatorError, match="is not CSV"):
            await imports.checked(late)
        await imports.finish()
        assert await _kept(it) == 0
        assert await it.count("users") == 2

    run(tmp_path, story)


def test_open_imports_are_bounded_and_old_ones_swept(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        imports = _Imports(it)

        def begin(tx: Transaction) -> bool:
            user_import = UserImport(
                *("im_upload", None, by_cli("root"), "a", ImportKind.CSV, ImportState.RECEIVING),
                *(0, 0, it.clock.now),
            )
            return UserImports.of(tx).begin(user_import, MOST_OPEN)

        async def sweep(after: int) -> list[str]:
            it.clock.forward(after)
            while await it.store.write(lambda tx: sweep_imports(tx, it.clock.now, 7)):
                pass
            recent = await it.store.read(lambda tx: UserImports.of(tx).recent(20))
            return [user_import.id for user_import in recent]

        finished = await imports.imported(_file(10))
        assert await it.store.write(begin)
        checked = [await imports.checked(_file(10, 10)) for _ in range(MOST_OPEN - 1)]
        with pytest.raises(OperatorError, match="too many imports"):
            await imports.checked(_file(1, 50))
        assert "im_upload" in await sweep(UPLOAD_LIFETIME)
        assert set(await sweep(1)) == {finished, *checked}
        assert await sweep(WAITING_LIFETIME) == [finished]
        discarded = await imports.checked(_file(1, 60))
        assert await imports.move(discarded, ImportState.STOPPED)
        await imports.finish()
        # Of two, the older one is deleted where one is kept.
        zero = Instant(0)
        await it.store.write(lambda tx: UserImports.of(tx).sweep(zero, zero, zero, 1, 99))
        assert await sweep(0) == [discarded]
        assert await sweep(REPORT_LIFETIME + 1) == []
        assert await it.count("user_import_rows") == 0

    run(tmp_path, story)


def test_imported_hash_signs_in_and_is_upgraded(tmp_path: Path, database_url: str) -> None:
    digest = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b"salt", 1_000, 32)
    made = f"pbkdf2_sha256$1000$salt${base64.b64encode(digest).decode()}"

    async def story(it: Harness) -> None:
        await _Imports(it).imported(f"username,email,password_hash\nzoe,z@example.com,{made}\n")
        browser = it.browser()
        page = await browser.sign_in(await browser.ask(), "zoe")
        assert 'id="allow"' in page.body
        zoe = await it.store.read(lambda tx: tx.users.find_by_username("zoe"))
        assert zoe is not None
        stored = await it.store.read(lambda tx: tx.users.password_hash(zoe.uid))
        assert stored is not None
        assert is_current(stored, QUICK_PASSWORDS)

    run(tmp_path, story, database_url)
