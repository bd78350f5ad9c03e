"""Events in administration: found by what is asked, and taken away as harmless copies."""

import csv
import io
import json
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import urlencode

from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.support.harness import Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.events import escape_formula
from valetkey.authorization.model.account.user import Role, Uid, User
from valetkey.authorization.model.event.clients import ClientRegistered
from valetkey.authorization.storage.transaction import Transaction


async def _copy(browser: Browser, format: str, query: str = "") -> tuple[dict[str, str], str]:
    form = await page(browser, f"/admin/events/export{query}")
    action, fields = form.form("do")
    body = urlencode({**fields, "format": format}, doseq=True).encode()
    sent = {
        "host": browser.host,
        "origin": "http://localhost:8400",
        "content-type": "application/x-www-form-urlencoded",
        "content-length": str(len(body)),
        "cookie": "; ".join(f"{k}={v}" for k, v in browser.cookies.items()),
    }
    scope: MutableMapping[str, object] = {
        "type": "http",
        "method": "POST",
        "scheme": "http",
        "path": action,
        "raw_path": action.encode(),
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
        "client": ("192.0.2.7", 4711),
    }
    messages: list[MutableMapping[str, object]] = []

    async def receive() -> MutableMapping[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def put(message: MutableMapping[str, object]) -> None:
        messages.append(message)

    await browser.app(scope, receive, put)
    assert messages[0]["status"] == 200, messages
    pairs = messages[0]["headers"]
    assert isinstance(pairs, list)
    pieces = [each.get("body", b"") for each in messages[1:]]
    text = b"".join(piece for piece in pieces if isinstance(piece, bytes)).decode()
    return {k.decode(): v.decode() for k, v in pairs}, text


async def _add(it: Harness, count: int) -> None:
    def work(tx: Transaction) -> None:
        for number in range(count):
            tx.events.add(ClientRegistered(f"app{number}", "test"), it.clock.now)

    await it.write(work)


def test_events_are_found_by_person_app_name_doer_and_day(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        await it.client("other")
        browser = await administrator(it)
        for query, shown in (
            ("person=ada", "session.started"),
            ("person=1001", "session.started"),
            ("client=web", "client.registered"),
            ("name=client.registered", "client.registered"),
            ("since=2027-01-15&until=2027-01-15", "session.started"),
        ):
            body = (await page(browser, f"/admin/events?{query}")).body
            assert f"<code>{shown}</code>" in body, query
        assert "No events found" in (await page(browser, "/admin/events?by=user+9")).body
        assert "No events found" in (await page(browser, "/admin/events?until=2001-01-01")).body
        now = it.clock.now
        old = User(Uid(2002), "1001", "old@example.com", now, "Old", now, now, None)
        assert await it.write(lambda tx: tx.users.register(old))
        several = await page(browser, "/admin/events?person=1001")
        assert "This matches several users. Enter uid:1002 or name:1002" in several.body
        assert "session.started" not in several.body.partition("<table")[2]
        exactly = await page(browser, "/admin/events?person=uid:1001")
        assert "<code>session.started</code>" in exactly.body
        other = await page(browser, "/admin/events?person=name:1001")
        assert "<code>session.started</code>" not in other.body
        wrong = await page(browser, "/admin/events?person=nobody&since=2026-13-45")
        assert "No user has this uid" in wrong.body
        assert "Enter the date as 2026-11-21" in wrong.body

    run(tmp_path, story)


def test_lists_of_events_go_on_where_they_ended(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _add(it, 130)
        address, seen = "/admin/events?name=client.registered", set[str]()
        pages = 0
        while address:
            body = (await page(browser, address)).body
            seen |= {line.partition('"')[0] for line in body.split('href="/admin/clients/')[1:]}
            pages += 1
            more = body.partition('rel="next"')[0].rpartition('href="')[2].partition('"')[0]
            address = more.replace("&amp;", "&") if 'rel="next"' in body else ""
        assert len([each for each in seen if each.startswith("app")]) == 130
        assert pages == 6

    run(tmp_path, story)


def test_xs_13_a_copy_holds_no_formula_and_is_an_event(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        evil = "=cmd|'/c calc'!A1"
        await it.write(lambda tx: tx.events.add(ClientRegistered(evil, "test"), it.clock.now))
        browser = await administrator(it, Role.AUDITOR)
        headers, text = await _copy(browser, "csv")
        assert headers["content-type"] == "text/csv; charset=utf-8"
        assert headers["content-disposition"] == 'attachment; filename="events.csv"'
        rows = list(csv.reader(io.StringIO(text)))
        assert rows[0][:3] == ["id", "at", "name"]
        assert f"'{evil}" in {row[3] for row in rows}
        assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
        headers, text = await _copy(browser, "ndjson", "?name=client.registered")
        lines = [json.loads(line) for line in text.splitlines()]
        assert {each["name"] for each in lines} == {"client.registered"}
        assert evil in {each["client_id"] for each in lines}
        told = [e for e in await it.event_records() if e.name == "events.exported"]
        assert [each.done_by for each in told] == ["user 1001"] * 2

    run(tmp_path, story)


def test_csv_cells_with_formulas_are_escaped() -> None:
    for text in ("=1", "+1", "-1", "@x", "\t=1", "\r=1"):
        assert escape_formula(text) == f"'{text}"
    for text in ("a=1", "1", "", "{"):
        assert escape_formula(text) == text


def test_a_copy_of_a_long_log_is_whole(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _add(it, 1_201)
        _, text = await _copy(browser, "ndjson", "?name=client.registered")
        ids = [json.loads(line)["client_id"] for line in text.splitlines()]
        assert len({each for each in ids if each.startswith("app")}) == 1_201
        assert len(ids) == len(set(ids))

    run(tmp_path, story)
