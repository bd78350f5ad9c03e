"""Events in administration: found by what is asked, and taken away as harmless copies."""

import csv
import io
import json
import re
from collections.abc import MutableMapping
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

from tests.authorization.endpoints.admin.things.desk import administrator, page
from tests.authorization.endpoints.developer.developers import text_of
from tests.support.harness import Harness, run
from tests.support.plain_browser import Browser
from valetkey.authorization.actions.admin.audit import escape_formula
from valetkey.authorization.features import KINDS
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import (
    MailDispatched,
    MailGivenUp,
    RemovalPlanned,
    RoleChanged,
    UserDisabled,
)
from valetkey.authorization.model.event.administration import SettingChanged
from valetkey.authorization.model.event.event import by_cli, by_token
from valetkey.authorization.model.event.grants import ClientDisabled, ClientRegistered
from valetkey.authorization.model.user import Role, Uid, User
from valetkey.authorization.site.page import pages_beside
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.web.body import Form, read_query


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
    pieces = [message.get("body", b"") for message in messages[1:]]
    text = b"".join(piece for piece in pieces if isinstance(piece, bytes)).decode()
    return {k.decode(): v.decode() for k, v in pairs}, text


async def _add(it: Harness, count: int) -> None:
    def work(tx: Transaction) -> None:
        for number in range(count):
            tx.events.add(ClientRegistered(f"app{number}", "test"), it.clock.now)

    await it.write(work)


def test_the_overview_shows_the_latest_events_as_sentences(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", name="Notes Printer")
        browser = await administrator(it)
        for number in range(3):
            await it.client(f"more{number}", name=f"More {number}")
        latest = (await page(browser, "/admin")).body.partition("Latest events")[2]
        latest = latest.partition("<h2")[0]
        assert latest.count('class="entry line event"') == 5
        assert '<a href="/admin/clients/more2"><bdi>More 2</bdi></a>' in latest
        assert latest.index("more2") < latest.index("more1") < latest.index("more0")
        nothing = await administrator(it, None)
        assert (await nothing.get("/admin")).status == 404

    run(tmp_path, story)


def test_events_are_found_by_outcome_with_every_other_filter(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web")
        browser = await administrator(it)
        stranger = Browser(it.app, host="localhost:8400", scheme="http")
        await stranger.sign_in(await stranger.get("/oauth/sign-in"), "ada", "a wrong password")

        async def names(query: str) -> set[str]:
            body = (await page(browser, f"/admin/events?{query}")).body
            return set(re.findall(r"<code>(\w+\.\w+)</code>", body.partition('id="events"')[2]))

        assert await names("outcome=failure") == {"sign_in.failed"}
        assert await names("outcome=failure&person=ada") == {"sign_in.failed"}
        assert await names("outcome=failure&name=sign_in.failed") == {"sign_in.failed"}
        assert await names("outcome=failure&client=web") == set()
        assert await names("outcome=failure&name=client.registered") == set()
        assert await names("outcome=failure&since=2030-01-01") == set()
        others = await names("outcome=success")
        assert {"client.registered", "session.started"} <= others
        assert "sign_in.failed" not in others
        assert await names("outcome=success&name=sign_in.failed") == set()
        assert "client.registered" in await names("outcome=success&client=web")
        everything = await names("")
        assert everything == await names("outcome=whatever") == others | {"sign_in.failed"}

        for query, kinds in (("failure", {"sign_in.failed"}), ("success", others)):
            _, text = await _copy(browser, "ndjson", f"?outcome={query}")
            copied = {json.loads(line)["name"] for line in text.splitlines()}
            assert copied - {"events.exported"} == kinds - {"events.exported"}, query

    run(tmp_path, story)


def test_events_are_filtered_by_user_app_name_actor_and_day(tmp_path: Path) -> None:
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
        by_name = await page(browser, "/admin/events?by=ada")
        assert by_name.body.count('<li class="entry') == 1
        wrong = await page(browser, "/admin/events?by=nobody")
        assert "No user has this user ID, username or email address." in wrong.body
        assert "No events found" in (await page(browser, "/admin/events?until=2001-01-01")).body
        now = it.clock.now
        old = User(Uid(2002), "old", "old@example.com", now, "Old", now, now, None)
        assert await it.write(lambda tx: tx.users.register(old))
        # As accounts of version 0.2 may be called.
        renamed = "UPDATE users SET username = '1001', username_key = '1001' WHERE uid = 2002"
        await it.write(lambda tx: tx.db.run(renamed))
        several = await page(browser, "/admin/events?person=1001")
        assert "This matches several users. Enter uid:1002 or name:1002" in several.body
        assert "session.started" not in several.body.partition("<table")[2]
        exactly = await page(browser, "/admin/events?person=uid:1001")
        assert "<code>session.started</code>" in exactly.body
        other = await page(browser, "/admin/events?person=name:1001")
        assert "<code>session.started</code>" not in other.body
        wrong = await page(browser, "/admin/events?person=nobody&since=2026-13-45")
        assert "No user has this user ID" in wrong.body
        assert "Enter the date as 2026-11-21" in wrong.body
        unknown = await page(browser, "/admin/events?name=no_such.event")
        assert "No event has this name. Choose one from the list." in unknown.body
        assert 'class="entries"' not in unknown.body

    run(tmp_path, story)


def test_every_event_has_a_sentence_with_only_its_own_fields() -> None:
    for kind in KINDS.values():
        named = set(re.findall(r"%\((\w+)\)s", kind.sentence))
        assert kind.sentence.endswith("."), f"{kind.name} needs a sentence"
        assert named <= set(kind.__struct_fields__), kind.name
    assert len({kind.sentence for kind in KINDS.values()}) == len(KINDS)


def test_events_of_email_name_its_kind_in_the_language_of_the_page(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def happen(tx: Transaction) -> None:
            tx.events.add(MailDispatched(None, EmailKind.NEW_DEVICE, 1), now)
            tx.events.add(MailGivenUp(1001, "of_another_version", 9, "no connection"), now)

        await it.write(happen)
        browser = await administrator(it)
        sent = text_of(await page(browser, "/admin/events?name=mail.dispatched"))
        assert "An email was sent: Sign-in from a new browser." in sent
        assert "kind new_device" in sent
        lost = text_of(await page(browser, "/admin/events?name=mail.given_up"))
        assert "An email to ada (of_another_version) could not be delivered: no connection." in lost
        german = await browser.get("/admin/events", name="mail.dispatched", ui_locales="de")
        assert "Anmeldung in einem neuen Browser" in german.body

    run(tmp_path, story)


def test_setting_and_clearing_a_value_have_separate_sentences(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        now = it.clock.now

        def happen(tx: Transaction) -> None:
            add = replace(tx.events, done_by=by_cli("root")).add
            for before, after in (("", "owner"), ("owner", "support"), ("support", "")):
                add(RoleChanged(1001, before, after), now)
                add(SettingChanged("mail.host", before, after), now)

        browser = await administrator(it)
        await it.write(happen)
        text = text_of(await page(browser, "/admin/events"))
        for sentence in (
            "ada was assigned the role owner.",
            "The role of ada was changed from owner to support.",
            "The role support was removed from ada .",
            "The setting mail.host was set to owner.",
            "The setting mail.host was changed from owner to support.",
            "The setting mail.host was cleared; it was support.",
        ):
            assert sentence in text, sentence

    run(tmp_path, story)


def test_events_are_shown_as_sentences_with_actor_and_fields(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", name="Notes <Printer>")
        now = it.clock.now

        def happen(tx: Transaction) -> None:
            add = replace(tx.events, done_by=by_cli("root")).add
            add(ClientDisabled("web"), now)
            add(ClientDisabled("gone"), now)
            add(RemovalPlanned(1001, now), now)
            replace(tx.events, done_by=by_token(1001, "at_1")).add(UserDisabled(1001), now)
            tx.db.run(
                "INSERT INTO events (id, at, name, client_id, uid, grant_id, data, done_by)"
                " VALUES ('ev_old', :now, 'thing.forgotten', NULL, NULL, NULL, '{}', 'system')",
                now=now,
            )

        browser = await administrator(it)
        await it.write(happen)
        body = (await page(browser, "/admin/events")).body
        text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))
        for sentence in (
            "The app Notes &lt;Printer&gt; was disabled. by root on the command line",
            "The app gone was disabled. by root on the command line",
            "The account ada is scheduled for deletion at 2027-01-15 08:00:00 UTC.",
            "The account ada was disabled. by ada with the API token at_1",
            "ada signed in. Details session.started",
            "thing.forgotten by the server",
        ):
            assert sentence in text, (sentence, text)
        assert '<a href="/admin/clients/web"><bdi>Notes &lt;Printer&gt;</bdi></a>' in body
        assert "done_by user 1001 token at_1" in text

    run(tmp_path, story)


def test_event_pages_list_each_event_once_in_both_directions(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _add(it, 130)
        shown = await page(browser, "/admin/events?name=client.registered")
        pages = [re.findall(r'<li [^>]*id="(ev_[^"]+)"', shown.body)]
        while address := shown.beside("next"):
            shown = await page(browser, address)
            pages.append(re.findall(r'<li [^>]*id="(ev_[^"]+)"', shown.body))
        assert len({event_id for one in pages for event_id in one}) == 131
        assert len(pages) == 6
        assert "Total: 131" in shown.body
        while address := shown.beside("prev"):
            shown = await page(browser, address)
            pages.pop()
            assert re.findall(r'<li [^>]*id="(ev_[^"]+)"', shown.body) == pages[-1]
        assert len(pages) == 1

    run(tmp_path, story)


def test_links_to_previous_pages_are_bounded_and_then_only_the_first_remains() -> None:
    query = Form({})
    for number in range(100):
        it = pages_beside("/list", {"q": "a b"}, query, f"{number}.{'x' * 90}")
        assert len(it.next) < 2_200
        query = read_query(it.next.partition("?")[2])
    passed = list[str]()
    while (it := pages_beside("/list", {"q": "a b"}, query, "")).previous:
        query = read_query(it.previous.partition("?")[2])
        passed.append((query.get("after") or "").partition(".")[0])
    assert passed == [str(number) for number in range(98, 77, -1)]
    assert it.first == "/list?q=a+b"


def test_xs_13_export_has_no_formulas_and_is_recorded(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        evil = "=cmd|'/c calc'!A1"
        await it.write(lambda tx: tx.events.add(ClientRegistered(evil, "test"), it.clock.now))
        browser = await administrator(it, Role.AUDITOR)
        headers, text = await _copy(browser, "csv")
        assert headers["content-type"] == "text/csv; charset=utf-8"
        assert headers["content-disposition"] == 'attachment; filename="events.csv"'
        assert text.startswith("\ufeffid,")
        rows = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"))))
        assert f"{datetime.fromtimestamp(it.clock.now, UTC):%Y-%m-%dT%H:%M:%SZ}" in rows[1]
        assert rows[0][:3] == ["id", "at", "name"]
        assert f"'{evil}" in {row[3] for row in rows}
        assert not any(cell.startswith(("=", "+", "-", "@")) for row in rows for cell in row)
        headers, text = await _copy(browser, "ndjson", "?name=client.registered")
        lines = [json.loads(line) for line in text.splitlines()]
        assert {line["name"] for line in lines} == {"client.registered"}
        assert evil in {line["client_id"] for line in lines}
        exports = [e for e in await it.event_records() if e.name == "events.exported"]
        assert [event.done_by for event in exports] == ["user 1001"] * 2

    run(tmp_path, story)


def test_csv_cells_with_formulas_are_escaped() -> None:
    for text in ("=1", "+1", "-1", "@x", "\t=1", "\r=1"):
        assert escape_formula(text) == f"'{text}"
    for text in ("a=1", "1", "", "{"):
        assert escape_formula(text) == text


def test_export_of_a_long_log_is_complete(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await administrator(it)
        await _add(it, 1_201)
        _, text = await _copy(browser, "ndjson", "?name=client.registered")
        ids = [json.loads(line)["client_id"] for line in text.splitlines()]
        assert len({client_id for client_id in ids if client_id.startswith("app")}) == 1_201
        assert len(ids) == len(set(ids))

    run(tmp_path, story)
