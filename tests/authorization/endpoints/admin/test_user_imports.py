"""The console's import of users: upload, check, decision, progress and report."""

import re

import pytest

from tests.authorization.endpoints.admin.people import administrator, give
from tests.authorization.endpoints.visitor.browser import Answer, Browser
from tests.authorization.endpoints.visitor.world import BOB, World, run
from valetkey.authorization.actions.admin.user_imports import ImportWork
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.background.user_imports import UserImporter
from valetkey.authorization.model.account.user import Role
from valetkey.kernel.moment import minutes
from valetkey.kernel.runtime import SYSTEM, Runtime

_IMPORT = "/admin/users/import"
_FILE = (
    "username,email\ncarl,carl@example.com\nbob,other@example.com\n"
    '<i>eve,"=HYPERLINK(""x"")@example.com"\ndora,nowhere\n'
)


async def upload(browser: Browser, content: bytes, name: str = "users.csv") -> Answer:
    """Choose this file and press the button."""
    page = await browser.get(_IMPORT)
    assert page.status == 200
    _, fields = page.form("do")
    parts = (
        f'--b\r\nContent-Disposition: form-data; name="csrf"\r\n\r\n{fields["csrf"][0]}\r\n'
        f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: text/csv\r\n\r\n"
    )
    body = parts.encode() + content + b"\r\n--b--\r\n"
    return await browser.send(
        "POST", _IMPORT, body, {"content-type": "multipart/form-data; boundary=b"}
    )


async def work(it: World) -> None:
    """Let a worker do what is due."""
    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    while await UserImporter(it.store, ImportWork(Accounts(SYSTEM.random)), runtime).work_some():
        pass


async def decide(browser: Browser, page: Answer, button: str) -> Answer:
    decision = {"do": "import"}.get(button, "stop")
    return await browser.follow(await browser.submit(page, button, decision=decision))


def test_file_is_checked_then_imported_then_reported(database_url: str) -> None:
    async def story(it: World) -> None:
        browser = await administrator(it, Role.ADMINISTRATOR)
        assert f'href="{_IMPORT}"' in (await browser.get("/admin/users")).body
        sent = await upload(browser, _FILE.encode())
        assert sent.status == 303
        assert re.fullmatch(f"{_IMPORT}/im_[A-Za-z0-9_-]+", sent.location)
        checking = await browser.get(sent.location)
        assert checking.header("refresh") == f"2; url={sent.location}"
        assert "0 of 4 users" in checking.body
        assert (await browser.get(f"{sent.location}/report")).status == 404
        await work(it)
        checked = await browser.get(sent.location)
        assert not checked.header("refresh")
        assert "Nothing has been changed so far" in checked.body
        assert "<i>" not in checked.body
        assert await it.count("users") == 2
        importing = await decide(browser, checked, "do")
        assert importing.header("refresh")
        # A second decision from another tab changes nothing.
        assert (await decide(browser, checked, "do")).status == 200
        await work(it)
        # The report is watched for longer than a proof of identity is recent.
        finished = await browser.get(sent.location)
        assert "Not imported" in finished.body
        report = await browser.get(f"{sent.location}/report")
        assert report.header("content-disposition").startswith("attachment")
        assert report.body.splitlines()[:3] == [
            "row,username,email,result,reason",
            "2,carl,carl@example.com,created,",
            "3,bob,other@example.com,already exists,username: an account with this name exists",
        ]
        assert "'=HYPERLINK" in report.body
        assert ",fault,email: " in report.body
        carl = await it.store.read(lambda tx: tx.users.find_by_username("carl"))
        assert carl is not None
        told = await it.store.read(lambda tx: tx.events.page(it.clock.now, "", 1_000))
        by = {each.done_by for each in told if each.name.startswith("user_import.")}
        assert by == {"user 1001"}

    run(database_url, story)


def test_import_is_stopped_and_its_file_discarded(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = await administrator(it)
        for stage in ("stop", "discard"):
            sent = await upload(browser, _FILE.encode())
            if stage == "discard":
                await work(it)
            page = await browser.get(sent.location)
            assert "Stopped" in (await decide(browser, page, stage)).body
            await work(it)
            assert "the import was stopped" in (await browser.get(sent.location)).body
        assert await it.count("users") == 2
        assert "users.csv" in (await browser.get(_IMPORT)).body

    run(sqlite_url, story)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no &#34;username&#34;"),
        (b"username,email,email\n", "there are two columns"),
        (b"\xff\xfe", "not UTF-8"),
        (b'username,email\na,"b', "is not CSV"),
    ],
)
def test_wrong_file_is_explained_on_the_form(sqlite_url: str, content: bytes, said: str) -> None:
    async def story(it: World) -> None:
        browser = await administrator(it)
        answer = await upload(browser, content)
        assert answer.status == 400
        assert said in answer.body
        none = await upload(browser, b"", name="")
        assert (none.status, "choose a file" in none.body) == (400, True)

    run(sqlite_url, story)


def test_other_roles_find_no_import_and_old_proof_is_renewed_first(sqlite_url: str) -> None:
    async def story(it: World) -> None:
        browser = await administrator(it)
        sent = await upload(browser, _FILE.encode())
        await work(it)
        page = await browser.get(sent.location)
        await give(it, Role.OWNER, BOB)
        await give(it, Role.SUPPORT)
        for address in (_IMPORT, sent.location, f"{sent.location}/report"):
            assert (await browser.get(address)).status == 404
        assert (await browser.submit(page, "do", decision="import")).status == 404
        assert _IMPORT not in (await browser.get("/admin/users")).body
        await give(it, Role.OWNER)
        it.clock.forward(minutes(11))
        # Progress is watched for longer than a proof of identity is recent.
        assert (await browser.get(sent.location)).status == 200
        late = await browser.submit(page, "do", decision="import")
        assert late.status == 303
        assert late.location.startswith("/account/confirm")
        assert "Waiting for your decision" in (await browser.get(sent.location)).body

    run(sqlite_url, story)
