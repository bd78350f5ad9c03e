"""Imports of users by the admin API: uploaded, checked, started, read row by row, and stopped."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin_api.programs import Caller, Reply, caller, person
from tests.support.harness import ADA, Harness, harness, run
from tests.support.wait import until_found
from valetkey.authorization.imports.jobs import UserImporter
from valetkey.authorization.imports.model import ImportKind, ImportState, UserImport
from valetkey.authorization.imports.rules.users import MOST_OPEN, ImportWork
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.user import Role
from valetkey.config.sections.people import AccountSettings
from valetkey.kernel.runtime import SYSTEM, Runtime

_ALL = "/users/imports"
_CSV = b"username,email\ncarl,carl@example.com\nbob,other@example.com\n=cmd,nowhere\n"
_NDJSON = (
    b'{"username": "dora", "email": "dora@example.com"}\n{"username": "carl"\n'
    b'{"username": "Dora", "email": "d@example.com", "shoe_size": 43}\n'
)


async def _upload(
    by: Caller, content: bytes = _CSV, media: str = "text/csv", query: str = ""
) -> Reply:
    headers = {"content-type": media}
    return await by.call("POST", f"{_ALL}{query}", raw=content, headers=headers)


async def _uploaded(by: Caller, content: bytes = _CSV, media: str = "text/csv") -> str:
    sent = await _upload(by, content, media)
    assert sent.status == 202, sent.body
    return f"{_ALL}/{sent.json['import_id']}"


async def _work(it: Harness) -> None:
    """Do what is due, beside the server's own worker."""
    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    worker = UserImporter(it.foundation.store, ImportWork(it.foundation.accounts()), runtime)

    async def rests() -> bool:
        while await worker.process_stage():
            pass
        recent = await it.read(lambda tx: UserImports.of(tx).recent(20))
        return not any(user_import.is_due for user_import in recent)

    await until_found(rests)


async def _figures(by: Caller, at: str) -> tuple[object, ...]:
    user_import = (await by.call("GET", at)).json
    names = ("state", "created", "can_be_imported", "existing", "faults")
    return tuple(user_import[name] for name in names)


def test_file_is_checked_then_imported_and_every_row_is_reported(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it, Role.ADMINISTRATOR)
        await person(it, "bob", None, 1002)
        before = await it.events()
        at = await _uploaded(admin)
        await _work(it)
        # The check is a dry run: nothing is changed, and nothing is in the audit log.
        assert await _figures(admin, at) == ("checked", 0, 1, 1, 1)
        assert await it.events() == before
        started = [await admin.call("POST", f"{at}/start") for _ in "12"]
        assert [answer.json for answer in started] == [{"changed": True}, {"changed": False}]
        await _work(it)
        assert await _figures(admin, at) == ("finished", 1, 0, 1, 1)
        first = await admin.call("GET", f"{at}/rows?limit=1")
        carl = {"row": 2, "username": "carl", "email": "carl@example.com"}
        assert first.items == [{**carl, "result": "created", "reasons": []}]
        assert 'rel="next"' in first.headers["link"]
        rest = await admin.call("GET", f"{at}/rows?cursor={first.json['next']}")
        problems = await admin.call("GET", f"{at}/rows?show=problems")
        assert rest.items == problems.items
        results = [(row["row"], row["result"], row["reasons"]) for row in rest.items]
        taken = {"field": "username", "detail": "an account with this name already exists"}
        invalid = {"field": "email", "detail": "must be an email address, such as ada@example.com"}
        assert results == [(3, "exists", [taken]), (4, "faulty", [invalid])]
        carls = await it.read(lambda tx: tx.users.find_by_username("carl"))
        assert carls is not None
        events = await it.read(lambda tx: tx.events.page(it.clock.now, "", 1_000))
        by = {e.name: e.done_by for e in events if e.name.startswith(("user_import", "user.reg"))}
        actor = by["user_import.started"]
        assert actor.startswith(f"user {ADA} token at_")
        assert by["user_import.finished"] == by["user.registered"] == actor
        assert (await admin.call("POST", f"{at}/stop")).json == {"changed": False}
        (listed,) = (await admin.call("GET", _ALL)).items
        assert (listed["file"], listed["total"]) == ("users.csv", 3)

    run(tmp_path, story, database=database_url)


def test_two_imports_of_the_same_users_at_once_create_each_user_once(
    tmp_path: Path, database_url: str
) -> None:
    many = b"username,email\n" + b"".join(b"u%d,u%d@example.com\n" % (n, n) for n in range(60))

    async def story(it: Harness) -> None:
        admin = await caller(it)
        both = await asyncio.gather(_uploaded(admin, many), _uploaded(admin, many))
        await _work(it)
        starts = [admin.call("POST", f"{at}/start") for at in both for _ in range(8)]
        changed = [answer.json["changed"] for answer in await asyncio.gather(*starts)]
        assert changed.count(True) == 2
        await asyncio.gather(*(_work(it) for _ in range(8)))
        figures = [await _figures(admin, at) for at in both]
        assert {import_figures[0] for import_figures in figures} == {"finished"}
        assert sum(int(str(import_figures[1])) for import_figures in figures) == 60
        assert sum(int(str(import_figures[3])) for import_figures in figures) == 60

    run(tmp_path, story, database=database_url)


def test_ndjson_and_json_are_taken_and_unfinished_imports_bounded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it)
        at = await _uploaded(admin, _NDJSON, "Application/X-NDJSON; charset=UTF-8")
        await _work(it)
        rows = (await admin.call("GET", f"{at}/rows?show=problems")).items
        assert [(row["row"], row["reasons"]) for row in rows] == [
            (2, [{"field": "", "detail": "the row is not JSON"}]),
            (3, [{"field": "username", "detail": "the same as in row 1"}]),
        ]
        for _ in range(MOST_OPEN - 1):
            await _uploaded(admin, b'[{"username": "eve", "email": "e@b"}]', "application/json")
        refused = await _upload(admin)
        assert (refused.status, refused.json["code"]) == (409, "conflict")
        assert (await admin.call("POST", f"{at}/stop")).json == {"changed": True}
        late = await admin.call("POST", f"{at}/start")
        assert (late.status, "was stopped" in str(late.json["detail"])) == (409, True)
        await _uploaded(admin)

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("content", "media", "status", "said"),
    [
        (b"", "text/csv", 400, 'no "username"'),
        (b"", "application/x-ndjson", 400, "has no users"),
        (b"{}", "application/json", 400, "not a JSON array"),
        (b"\xff", "text/csv", 400, "not UTF-8"),
        (_CSV, "text/csv; charset=latin1", 415, "text/csv, application/json, application/x-ndjson"),
        (_CSV, "multipart/form-data", 415, "in UTF-8"),
        (b"x" * (1 << 20) + b"x", "text/csv", 413, "more than 1024 KiB"),
    ],
)
def test_wrong_file_is_refused_and_leaves_nothing(
    tmp_path: Path, content: bytes, media: str, status: int, said: str
) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it)
        refused = await _upload(admin, content, media)
        assert (refused.status, said in str(refused.json["detail"])) == (status, True), refused.body
        assert refused.headers["content-type"] == "application/problem+json"
        assert (await admin.call("GET", _ALL)).items == []

    async def tell() -> None:
        async with harness(tmp_path, accounts=AccountSettings(import_size=1)) as it:
            await story(it)

    asyncio.run(tell())


def test_token_without_the_permission_and_disabled_administrator_import_nothing(
    tmp_path: Path,
) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it, Role.ADMINISTRATOR)
        at = await _uploaded(admin)
        await _work(it)
        narrow = await caller(it, Role.ADMINISTRATOR, ("read", "clients"))
        for method, path in (("GET", _ALL), ("GET", f"{at}/rows"), ("POST", f"{at}/start")):
            assert (await narrow.call(method, path)).status == 403
        assert (await _upload(narrow)).status == 403
        ada = await it.read(lambda tx: tx.users.find(ADA))
        assert ada is not None
        await it.write(lambda tx: it.foundation.accounts().disable(tx, ada, it.clock.now))
        assert (await _upload(admin)).status == 401
        assert (await admin.call("POST", f"{at}/start")).status == 401

    run(tmp_path, story)


def test_file_that_is_not_checked_cannot_be_started(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it)
        user_import = UserImport(
            *("im_upload", ADA, by_user(ADA), "a", ImportKind.CSV, ImportState.RECEIVING),
            *(0, 0, it.clock.now),
        )
        assert await it.write(lambda tx: UserImports.of(tx).begin(user_import, MOST_OPEN))
        early = await admin.call("POST", f"{_ALL}/im_upload/start")
        assert (early.status, "still being checked" in str(early.json["detail"])) == (409, True)

    run(tmp_path, story)


def test_unknown_import_and_wrong_page_are_refused(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        admin = await caller(it)
        for path in (f"{_ALL}/im_none", f"{_ALL}/%00", f"{_ALL}/im_none/rows"):
            assert (await admin.call("GET", path)).status == 404, path
        for act in ("start", "stop"):
            assert (await admin.call("POST", f"{_ALL}/im_none/{act}")).status == 404
        at = await _uploaded(admin)
        for query in ("after=-1", "after=x", "limit=0", "limit=201", "show=some", "what=1"):
            assert (await admin.call("GET", f"{at}/rows?{query}")).status == 400, query
        assert (await _upload(admin, _CSV, query="?file=")).status == 400
        named = await _upload(admin, _CSV, query="?file=%3Ci%3Estaff")
        shown = await admin.call("GET", f"{_ALL}/{named.json['import_id']}")
        assert shown.json["file"] == "<i>staff"

    run(tmp_path, story)
