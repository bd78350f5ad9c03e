"""IP addresses in sessions and events: recorded, shown to the right users, and erased."""

import json
from collections.abc import Generator
from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.authorization.endpoints.account.people import knows, signed_in
from tests.authorization.endpoints.admin.people import administrator, do
from tests.support.geo import geo_database
from tests.support.harness import Harness
from tests.support.harness import run as run_harness
from tests.support.visitors import ALICE, BOB, run
from valetkey.authorization.actions.admin.audit import verify
from valetkey.authorization.authentication.places import PLACES
from valetkey.authorization.background.audit import AuditJob
from valetkey.authorization.background.maintenance import address_sweep, sweep_all
from valetkey.authorization.model.event.chain import checkpoint_key
from valetkey.authorization.model.user import Role, Uid
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.search import END, EventFilter
from valetkey.config.sections.people import PrivacySettings
from valetkey.config.settings import AuthorizationSettings
from valetkey.kernel.moment import days, later, minutes, seconds
from valetkey.kernel.runtime import SYSTEM, Runtime

HERE, THERE = "203.0.113.7", "2001:db8::42"
OFF = PrivacySettings(record_ip_addresses=False)


@pytest.fixture(autouse=True)
def no_places() -> Generator[None]:
    yield
    PLACES.use(None)


async def of_events(it: Harness, uid: Uid = ALICE.uid) -> list[EventRecord]:
    """The events of the user, newest first, as the console reads them."""
    records = await it.read(lambda tx: tx.event_search.page(EventFilter(uid=uid), END, 50))
    return list(records)


async def addresses(it: Harness) -> set[str]:
    """Every IP address that is stored in a session or beside an event."""
    rows = await it.store.engine.scan(
        lambda db: [
            *db.rows("SELECT signed_in_from FROM sessions"),
            *db.rows("SELECT last_seen_from FROM sessions"),
            *db.rows("SELECT origin FROM event_origins"),
        ]
    )
    return {str(row[0]).partition("|")[0] for row in rows} - {""}


async def sweep(it: Harness, settings: PrivacySettings) -> int:
    """Erase what is past its retention."""
    return await sweep_all(it.store, it.clock.now, (address_sweep(settings),))


def test_session_and_event_show_ip_address_and_location(tmp_path: Path, database_url: str) -> None:
    privacy = PrivacySettings(geo_database=str(geo_database(tmp_path / "geo.mmdb")))

    async def story(it: Harness) -> None:
        browser = await signed_in(it, address=HERE)
        page = await browser.get("/account/sessions")
        assert knows(page, f"from <bdi>{HERE}</bdi> (Berlin, Germany)")
        page = await browser.get("/account/activity")
        assert knows(page, f"Firefox on Linux from <bdi>{HERE}</bdi> (Berlin, Germany)")
        it.clock.forward(minutes(2))
        browser.address = THERE
        await browser.get("/account/apps")
        sessions = await it.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
        (session,) = [candidate for candidate in sessions if candidate.signed_in_from == HERE]
        assert session.last_seen_from == THERE
        other = await signed_in(it, address="192.0.2.9")
        german = {"accept-language": "de"}
        page = await other.send("GET", "/account/sessions", headers=german)
        assert knows(page, f"von <bdi>{HERE}</bdi> (Berlin, Deutschland)")
        assert knows(page, f"von <bdi>{THERE}</bdi> (Japan)")
        # An address without a place is shown alone.
        assert "<bdi>192.0.2.9</bdi> (" not in page.body

    run(tmp_path, story, database_url, privacy=privacy)


def test_failed_sign_in_has_the_address_of_the_attempt(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        stranger = it.browser()
        stranger.address = "198.51.100.1"
        page = await stranger.get("/oauth/sign-in")
        await stranger.submit(page, "sign-in", username="alice", password="wrong")
        failed = (await of_events(it))[0]
        assert failed.name == "sign_in.failed"
        assert failed.origin is not None
        assert failed.origin.address == "198.51.100.1"
        assert knows(await (await signed_in(it)).get("/account/activity"), "198.51.100.1")

    run(tmp_path, story)


def test_address_is_taken_from_trusted_proxies_and_compressed(tmp_path: Path) -> None:
    behind = AuthorizationSettings(trusted_proxies=(ip_network("10.0.0.0/8"),))

    async def story(it: Harness) -> None:
        forwarded = "198.51.100.99, 2001:0DB8:0000::0042"
        for peer, forwarded_for, shown in (
            ("10.0.0.1", forwarded, THERE),
            ("192.0.2.7", forwarded, "192.0.2.7"),
            ("10.0.0.1", "unknown", ""),
            ("::ffff:192.0.2.8", "", "192.0.2.8"),
        ):
            browser = it.browser()
            browser.address = peer
            page = await browser.send(
                "GET", "/oauth/sign-in", headers={"x-forwarded-for": forwarded_for or "-"}
            )
            action, fields = page.form("sign-in")
            word = "correct horse battery staple"
            typed = {**fields, "username": ["alice"], "password": [word]}
            headers = {"x-forwarded-for": forwarded_for} if forwarded_for else {}
            assert (await browser.post(action, typed, headers)).location == "/"
            sessions = await it.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now))
            assert shown in {session.signed_in_from for session in sessions}, peer

    run(tmp_path, story, authorization=behind)


def test_disabled_setting_records_no_addresses(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it, address=HERE)
        it.clock.forward(minutes(2))
        page = await browser.get("/account/activity")
        # The browser is that of the session.
        assert knows(page, "Firefox on Linux")
        assert HERE not in page.body
        assert HERE not in (await browser.get("/account/sessions")).body
        assert await addresses(it) == set()
        assert await it.count("event_origins") == 0

    run(tmp_path, story, privacy=OFF)


def test_disabled_setting_erases_recorded_addresses(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, address=HERE)
        assert await addresses(it) == {HERE}
        assert await sweep(it, PrivacySettings()) == 0
        assert await sweep(it, OFF) > 0
        assert await addresses(it) == set()
        assert await it.count("event_origins") == 0

    run(tmp_path, story, database_url)


def test_expired_addresses_are_erased_and_the_audit_log_stays_intact(
    tmp_path: Path, database_url: str
) -> None:
    settings = PrivacySettings(ip_address_retention=days(10))

    async def story(it: Harness) -> None:
        await signed_in(it, address=HERE)
        key = checkpoint_key(it.foundation.keyring.fingerprint_key)
        runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
        keep = it.foundation.keep_events
        it.clock.forward(minutes(1))
        assert await AuditJob(it.store, keep, key, runtime).append_due() is not None
        events = len(await of_events(it))
        it.clock.forward(days(9))
        await sweep(it, settings)
        assert HERE in await addresses(it)
        it.clock.forward(days(1) + 1)
        assert await sweep(it, settings) > 0
        assert await addresses(it) == set()
        assert len(await of_events(it)) == events
        assert await it.read(lambda tx: tx.sessions.live_of(ALICE.uid, it.clock.now)) != []
        assert (await verify(it.store, key.public, [])).is_whole

    run(tmp_path, story, database_url)


def test_deleted_events_and_accounts_leave_no_address(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await signed_in(it, "bob", address=HERE)
        await signed_in(it, address=HERE)
        soon = later(it.clock.now, seconds(1))

        await it.store.write(lambda tx: tx.account_removals.delete_rows(BOB.uid, soon, 100))
        assert all(event.origin is None for event in await of_events(it, BOB.uid))
        assert any(event.origin for event in await of_events(it))
        await it.store.write(lambda tx: tx.events.sweep_name("session.started", soon, 100))
        await it.store.write(lambda tx: tx.events.sweep(soon, 100))
        assert await it.count("event_origins") == 0

    run(tmp_path, story, database_url)


def test_address_of_an_administrator_is_shown_in_the_console_only(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await administrator(it, Role.OWNER)
        browser = await signed_in(it, address=HERE)
        assert (await do(browser, f"/admin/users/{BOB.uid}/disable")).status == 303
        event = (await of_events(it, BOB.uid))[0]
        assert event.origin is not None
        assert event.origin.address == HERE
        page = await browser.get("/admin/events", person=f"uid:{BOB.uid}")
        assert knows(page, f"<dt>ip_address</dt><dd><bdi>{HERE}</bdi>")
        assert HERE in (await browser.get(f"/admin/users/{ALICE.uid}")).body
        assert (await do(browser, f"/admin/users/{BOB.uid}/enable")).status == 303
        bobs = await signed_in(it, "bob")
        assert knows(await bobs.get("/account/activity"), "By an operator of this server")
        assert HERE not in (await bobs.get("/account/activity")).body
        answer = await bobs.submit(await bobs.get("/account/data"), "download")
        assert HERE not in answer.body
        assert "192.0.2.7" in answer.body

    run(tmp_path, story)


def test_download_of_own_data_has_the_addresses(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        browser = await signed_in(it, address=HERE)
        answer = await browser.submit(await browser.get("/account/data"), "download")
        account = json.loads(answer.body)
        assert HERE in {session["signed_in_from"] for session in account["sessions"]}
        assert HERE in {session["last_seen_from"] for session in account["sessions"]}
        started = [event for event in account["events"] if event["name"] == "session.started"]
        assert ("203.0.113.7", "Firefox, Linux") in {
            (event.get("ip_address"), event.get("browser")) for event in started
        }

    run(tmp_path, story)


def test_token_requests_record_no_origin(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await it.client("web", scopes=("notes:read",))
        first = await it.tokens("web")
        assert (await it.refresh("web", first.text("refresh_token"))).status == 200
        assert {"code.redeemed", "refresh_token.used"} <= set(await it.events())
        assert await it.count("event_origins") == 0

    run_harness(tmp_path, story, database_url)
