"""The console's import of users: upload, check, decision, progress and report."""

import csv
import json
import re
from functools import partial
from io import StringIO
from pathlib import Path

import pytest

from tests.authorization.endpoints.admin.people import administrator, give
from tests.support.harness import Harness
from tests.support.plain_browser import Answer, Browser
from tests.support.visitors import BOB, run
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.claims.rules import declare_attribute
from valetkey.authorization.imports.jobs import UserImporter
from valetkey.authorization.imports.model import RowState
from valetkey.authorization.imports.rules.files import explain, reasons_of
from valetkey.authorization.imports.rules.users import ImportWork
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.layout.language import LANGUAGES, translations
from valetkey.authorization.model.user import Attribute, Role
from valetkey.authorization.protocol.register.faults import REASONS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
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


async def work(it: Harness) -> None:
    """Let a worker do what is due."""
    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    while await UserImporter(
        it.store, ImportWork(Accounts(SYSTEM.random)), runtime
    ).process_stage():
        pass


async def decide(browser: Browser, page: Answer, button: str) -> Answer:
    decision = {"do": "import"}.get(button, "stop")
    return await browser.follow(await browser.submit(page, button, decision=decision))


def test_file_is_checked_then_imported_then_reported(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
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
        lines = report.body.splitlines()
        assert lines[:2] == [
            "\ufeffrow,username,email,result,reason",
            "2,carl,carl@example.com,created,",
        ]
        is_taken = "username: an account with this name already exists"
        assert lines[2] == f"3,bob,other@example.com,already exists,{is_taken}"
        assert "'=HYPERLINK" in report.body
        assert ',fault,"email: ' in report.body
        carl = await it.store.read(lambda tx: tx.users.find_by_username("carl"))
        assert carl is not None
        events = await it.store.read(lambda tx: tx.events.page(it.clock.now, "", 1_000))
        by = {event.done_by for event in events if event.name.startswith("user_import.")}
        assert by == {"user 1001"}

    run(tmp_path, story, database_url)


def test_import_is_stopped_and_its_file_discarded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
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

    run(tmp_path, story)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "hat kein „username“"),
        (b"username,email,email\n", "Die Spalte „email“ kommt zweimal"),
        (b"\xff\xfe", "nicht in UTF-8"),
        (b'username,email\na,"b', "Zeile 2 ist kein CSV"),
    ],
)
def test_wrong_file_is_explained_on_the_form(tmp_path: Path, content: bytes, said: str) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await browser.post("/language", {"language": "de"})
        answer = await upload(browser, content)
        assert answer.status == 400
        assert said in answer.body
        none = await upload(browser, b"", name="")
        assert (none.status, "Wählen" in none.body) == (400, True)

    run(tmp_path, story)


def test_import_requires_role_and_recent_authentication(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
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

    run(tmp_path, story)


_TEXTS = (
    *("given_name", "family_name", "middle_name", "nickname", "profile", "picture", "website"),
    *("gender", "birthdate", "zoneinfo", "locale", "phone_number", "name", "password_hash"),
)
_WRONG: dict[str, tuple[object, ...]] = {
    "username": (
        None,
        "",
        "x" * 201,
        "a b",
        "4" * 16,
        "p\u0430yment",
        "a\u2800b",
        "<b>",
        "admin",
        "bob",
        "first",
    ),
    "email": (None, "", "nowhere", "a@" + "x" * 200, "bob@example.com"),
    "uid": ("1", 1.5, True, 0, 2**70, 1002),
    "email_verified": (None, "yes"),
    "phone_number_verified": (17, True),
    "address": ("London", {"city": "x"}, {"region": 1}, {"region": " x"}, {"formatted": "a\tb"}),
    "shoe_size": (43,),
    "attributes": (
        None,
        {"shoe_size": 1},
        {"shoe size": 1},
        {"room": 1},
        {"room": "x"},
        {"room": "x" * 9},
        {"floor": "1"},
        {"ratio": "1"},
        {"ratio": 0.3},
        {"tags": "1"},
        {"kind": "c; must"},
        {"any": {"a": 2**53}},
        {"any": "x" * 9_000},
    ),
    **dict.fromkeys(_TEXTS, (None, "x" * 200, "x" * 2001, "a\x00", " \u202e")),
    "password_hash": (
        "plain",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdA$MDEyMzQ1Njc4OWFiY2RlZg",
        "$pbkdf2-sha256$i=9000000$c2FsdA$MDEyMzQ1Njc4OWFiY2RlZg",
    ),
}
_ELSE = {
    # Systems without crypt(3) refuse the hashes that need it.
    "row.hash.system",
    # Another transaction registers the user while this one does.
    "user.taken",
    "row.stopped",
    # Only after a change of the row: the whole array is read first.
    "row.json",
    # Only CSV has cells.
    "text.json",
    "row.cells",
    # Forms of the console have these.
    "stream.email",
    "stream.polled",
    "api.ambiguous",
    "api.unknown",
    "app.ambiguous",
    "app.unknown",
    "text.some",
    "attribute.name",
    "name.taken",
    "name.unusable",
    "group.unknown",
    # Its value is a name.
    "row.group",
    "group.form",
    "role.form",
    "scope.form",
    "pair.form",
    "label.form",
    "color.form",
    "url.form",
    "event.form",
    "choice.form",
    "header.form",
    "id.form",
    "id.most",
    "issuer.taken",
    "names.form",
    "names.most",
    *(code for code in REASONS if code.startswith("file.")),
}
"""Codes that no row has by itself."""


def _wrong_users() -> str:
    users: list[dict[str, object]] = [{"username": "first", "email": "first@example.com"}]
    for name, values in _WRONG.items():
        for value in values:
            number = len(users)
            usual = {"username": f"u{number}", "email": f"u{number}@example.com"}
            users.append({**usual, name: value})
    users.append({"username": "cell", "email": "cell@example.com", "attributes": {"room": "ab"}})
    every = {name: " \u202e" for name in _TEXTS if name != "password_hash"}
    users.append({"username": "every", "email": "every@example.com", **every})
    rows = [json.dumps(user) for user in users]
    return f'[{",".join(rows)},{{}},17,{{"uid":1e999}},{{"name":"{"x" * 70_000}"}}]'


_ATTRIBUTES: dict[str, dict[str, object]] = {
    "any": {},
    "floor": {"type": "integer"},
    "kind": {"enum": ["a", "b c"]},
    "ratio": {"type": "number", "multipleOf": 0.5},
    "room": {"type": "string", "minLength": 2, "maxLength": 8},
    "tags": {"type": "array"},
}


async def _declare(it: Harness) -> None:
    for name, schema in _ATTRIBUTES.items():
        attribute = Attribute(name, schema=schema)
        await it.store.write(partial(_declared, attribute, it.clock.now))


def _declared(attribute: Attribute, now: Instant, tx: Transaction) -> None:
    assert declare_attribute(tx, attribute, now) is True


def test_every_import_error_has_a_translatable_text(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await _declare(it)
        browser = await administrator(it)
        sent = await upload(browser, _wrong_users().encode(), "users.json")
        assert sent.status == 303, sent.body
        await work(it)
        rows = await it.store.read(lambda tx: UserImports.of(tx).rows(_id(sent), 0, 1_000))
        parts = [part for row in rows for part in reasons_of(row.reason)]
        assert {part.code for part in parts} == {*REASONS} - _ELSE
        # Values are numbers: no sentence is hidden in them.
        assert all(value.isdecimal() for part in parts for value in part.values.values())
        for language in LANGUAGES[1:]:
            gettext = translations(language).gettext
            assert {text for text in REASONS.values() if gettext(text) == text} == set()
        german = {"accept-language": "de"}
        report = (await browser.send("GET", f"{sent.location}/report", headers=german)).body
        heading, *lines = csv.reader(StringIO(report.removeprefix("\ufeff")))
        assert heading == ["Zeile", "Benutzername", "E-Mail-Adresse", "Ergebnis", "Grund"]
        assert {line[3] for line in lines} == {
            "kann importiert werden",
            "existiert bereits",
            "Fehler",
        }
        assert "username: fehlt" in [line[4] for line in lines]
        assert re.search(r"must|character|account|with|the row", report) is None
        shown = (await browser.send("GET", sent.location, headers=german)).body
        assert "darf höchstens <bdi>200</bdi> Zeichen haben" in shown
        assert "must" not in shown

    run(tmp_path, story)


def test_cells_of_attributes_are_read_as_their_types(tmp_path: Path, database_url: str) -> None:
    rows = (
        "username,email,attribute.room,attribute.floor,attribute.any",
        'carl,carl@example.com,17a,4,"{""a"": [1]}"',
        "dora,dora@example.com,17a,four,1",
        "eve,eve@example.com,1,4,{",
        "fred,fred@example.com,,,",
        "gus,gus@example.com,,,true",
    )

    async def story(it: Harness) -> None:
        await _declare(it)
        browser = await administrator(it)
        assert "attribute.room" in (await browser.get(_IMPORT)).body
        sent = await upload(browser, "\n".join(rows).encode())
        await work(it)
        checked = await browser.get(sent.location)
        # The declaration changes between the check and the import.
        smaller = Attribute("any", schema={"type": "object"})
        await it.store.write(partial(_declared, smaller, it.clock.now))
        await decide(browser, checked, "do")
        await work(it)
        imported_rows = await it.store.read(lambda tx: UserImports.of(tx).rows(_id(sent), 0, 10))
        assert [(row.state, explain(row.reason)) for row in imported_rows] == [
            (RowState.CREATED, ""),
            (RowState.FAULTY, "attributes/floor: must be a whole number"),
            (RowState.FAULTY, "attributes/any: must be valid JSON"),
            (RowState.CREATED, ""),
            (RowState.FAULTY, "attributes/any: must be an object"),
        ]
        carl = await it.store.read(lambda tx: tx.users.find_by_username("carl"))
        fred = await it.store.read(lambda tx: tx.users.find_by_username("fred"))
        assert carl is not None
        assert fred is not None
        assert carl.attributes.values == {"any": {"a": [1]}, "floor": 4, "room": "17a"}
        assert fred.attributes.values == {}
        assert await it.store.read(lambda tx: tx.users.find_by_username("gus")) is None

    run(tmp_path, story, database_url)


def _id(sent: Answer) -> str:
    return sent.location.rpartition("/")[2]
