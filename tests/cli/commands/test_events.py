"""`valetkey events`: the audit logs of both servers as one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import requests

from tests.cli.commands.test_apply import apply
from tests.cli.running import Ran, valetkey
from tests.cli.site import configure, serving
from tests.support.wait import wait_until
from valetkey.authorization.model.event.accounts import UserChanged
from valetkey.authorization.model.event.event import by_cli
from valetkey.authorization.storage.records import Events
from valetkey.database.connect import connect
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.storage.events import Events as ObjectEvents
from valetkey.resource.storage.events import ObjectChanged, ObjectCreated


def events(here: Path, *arguments: str) -> Ran:
    return valetkey("events", *arguments, here=here)


def logged(here: Path, *arguments: str) -> list[dict[str, Any]]:
    ran = events(here, *arguments, "--json")
    assert ran.code == 0, ran.err
    return list(ran.json)


def filled(here: Path) -> None:
    """Databases with events of both servers in the same two seconds."""
    configure(here)
    assert valetkey("database", "migrate", here=here).code == 0

    def users(db: Connection) -> None:
        for n in range(6):
            Events(db, SYSTEM.random, by_cli("ada")).add(
                UserChanged(n, ("name",)), Instant(1_000 + n // 3)
            )

    def objects(db: Connection) -> None:
        log = ObjectEvents(db)
        for n in range(4):
            kind = "notes" if n < 3 else "books"
            created = ObjectCreated(kind, f"x_{n}", 1, "1001", "printer", "at_1", "gr_1")
            log.add(created, Instant(1_000 + n // 2))
        log.add(ObjectChanged("notes", "x_0", 2, None, "robot", "at_2", None), Instant(1_000))

    async def write() -> None:
        for name, work in (("authorization", users), ("resource", objects)):
            engine = connect(f"sqlite:///valetkey/{name}.db", directory=here)
            await engine.write(work)
            await engine.close()

    asyncio.run(write())


def test_events_of_both_servers_are_listed_and_paged_in_one_order(tmp_path: Path) -> None:
    filled(tmp_path)
    whole = logged(tmp_path, "--after", "1970-01-01")
    assert len(whole) == 11
    order = [(event["at"], event["server"]) for event in whole]
    assert order == sorted(order)
    paged = logged(tmp_path, "--after", "1970-01-01", "--limit", "2")
    while page := logged(tmp_path, "--after", paged[-1]["id"], "--limit", "2"):
        paged += page
    assert paged == whole
    assert logged(tmp_path, "--limit", "3") == whole[-3:]
    assert logged(tmp_path, "--after", "1970-01-02") == []


def test_changes_of_one_object_are_listed_with_the_actor(tmp_path: Path) -> None:
    filled(tmp_path)
    notes = logged(tmp_path, "--object", "notes", "--after", "1970-01-01")
    assert [event["id"] for event in notes] == ["x_0.1", "x_0.2", "x_1.1", "x_2.1"]
    assert notes[1] == {
        "id": "x_0.2",
        "server": "resource",
        "at": 1_000,
        "name": "object.changed",
        "done_by": "client robot",
        "object": "notes",
        "object_id": "x_0",
        "version": 2,
        "uid": None,
        "client_id": "robot",
        "token_id": "at_2",
        "grant_id": None,
        "ip_address": "",
        "browser": "",
    }
    assert (notes[0]["uid"], notes[0]["done_by"]) == (1001, "user 1001")
    people = events(tmp_path, "--object", "books")
    assert people.code == 0
    assert "object.created" in people.out
    assert "client_id=printer" in people.out
    assert "notes" not in people.out


def test_unknown_event_and_missing_database_are_operator_errors(
    tmp_path: Path,
) -> None:
    ran = events(tmp_path)
    assert ran.code == 2
    assert "there is no database here" in ran.err
    configure(tmp_path)
    assert logged(tmp_path) == []
    assert not (tmp_path / "valetkey").exists()
    for unknown in ("ev_x", "note_x.3", "x.99999999999999999999", "2026-13-01", ""):
        ran = events(tmp_path, "--after", unknown)
        assert ran.code == 2
        assert "there is no event" in ran.err


def test_events_are_found_by_subject_and_outcome(tmp_path: Path, database_url: str) -> None:
    file = configure(tmp_path)
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("workers", f'database = "{database_url}"\nworkers'), "utf-8")
    declared = """
[[users]]
username = "ada"
email = "ada@example.com"
[[groups]]
name = "printers"
[[apis]]
identifier = "https://notes.example"
name = "Notes"
[[webhooks]]
url = "https://example.com/hook"
"""
    assert apply(tmp_path, declared, "--yes").code == 0
    assert valetkey("group", "create", "writers", here=tmp_path).code == 0
    for kind, names in (
        ("group", ["group.created", "group.created"]),
        ("group:printers", ["group.created"]),
        ("api", ["api.registered"]),
        ("api:https://notes.example", ["api.registered"]),
        ("user:ada", ["user.registered"]),
        ("webhook", ["webhook.created"]),
    ):
        subject_events = logged(tmp_path, "--subject", kind)
        assert [event["name"] for event in subject_events] == names, kind
        assert logged(tmp_path, "--subject", kind, "--outcome", "success") == subject_events
        assert logged(tmp_path, "--subject", kind, "--outcome", "failure") == []
        assert logged(tmp_path, "--subject", kind, "--after", "2099-01-01") == []
    webhook = logged(tmp_path, "--subject", "webhook")[0]["webhook_id"]
    assert logged(tmp_path, "--subject", f"webhook:{webhook}")[0]["done_by"].startswith("apply ")
    groups = logged(tmp_path, "--subject", "group")
    assert logged(tmp_path, "--subject", "group", "--after", groups[0]["id"]) == groups[1:]
    assert logged(tmp_path, "--subject", "group", "--limit", "1") == groups[1:]
    for wrong in (["--subject", "thing"], ["--object", "notes", "--outcome", "failure"]):
        assert events(tmp_path, *wrong).code == 2
    assert "see: valetkey user list" in events(tmp_path, "--subject", "user:nobody").err
    for day in ("30.11.2026", "11/30/2026", "yesterday"):
        assert "2026-11-30" in events(tmp_path, "--after", day).err


def test_events_of_running_servers_are_listed(tmp_path: Path) -> None:
    configure(tmp_path)
    with serving(tmp_path) as site:
        assert requests.get(f"{site.resource}/health/ready", timeout=60).status_code == 200
        names = [event["name"] for event in logged(tmp_path)]
        assert "signing_key.issued" in names
        assert "client.registered" in names


def test_chain_of_running_server_is_exported_and_tampering_is_named(tmp_path: Path) -> None:
    with configure(tmp_path).open("a") as file:
        file.write('\n[audit]\nexport = ["file:audit.jsonl"]\n')
    exported = tmp_path / "audit.jsonl"
    with serving(tmp_path):
        wait_until(exported.exists)
        wait_until(lambda: events(tmp_path, "checkpoint").code == 0)
    names = [json.loads(line)["name"] for line in exported.read_text().splitlines()]
    assert names[-1] == "audit.checkpoint"
    assert len(names) > 1
    (tmp_path / "known.jsonl").write_text(events(tmp_path, "checkpoint").out)
    verified = events(tmp_path, "verify", "--checkpoints", "known.jsonl", "--json")
    assert (verified.code, verified.json["ok"]) == (0, True), verified.out

    async def tamper() -> None:
        engine = connect("sqlite:///valetkey/authorization.db", directory=tmp_path)
        await engine.write(lambda db: db.run("UPDATE audit_blocks SET at = 1"))
        await engine.write(lambda db: db.run("UPDATE audit_exports SET block = 0"))
        await engine.close()

    asyncio.run(tamper())
    verified = events(tmp_path, "verify")
    assert verified.code == 1
    assert "block  1: its content does not match its hash" in verified.out
    (tmp_path / "known.jsonl").write_text("{}")
    assert events(tmp_path, "verify", "--checkpoints", "known.jsonl").code == 2
    findings = valetkey("doctor", "--json", here=tmp_path).json["findings"]
    (finding,) = [
        result for result in findings if result["about"] == "audit export file:audit.jsonl"
    ]
    assert finding["level"] == "error"
