"""Alerts: a problem that lasts is told once, then daily, then its end; events at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from tests.authorization.endpoints.mailed.post import BOX, letters
from tests.support.harness import Harness, run
from valetkey.authorization.actions.admin.roles import set_role
from valetkey.authorization.actions.inspection.check import FAILED, Condition, Finding, Level
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.alerts.jobs import AlertWatch, sweep
from valetkey.authorization.alerts.model import AlertEmail
from valetkey.authorization.alerts.settings import AlertSettings
from valetkey.authorization.email.message import write
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.email import Email
from valetkey.authorization.model.event.grants import RefreshTokenReused
from valetkey.authorization.model.user import Role, StandardClaims, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.runtime import SYSTEM, Runtime

FULL = Condition("disk_full", Level.ERROR, "disk", "%(free)s of the disk are free.")
WARNED = Condition("one_owner", Level.WARNING, "owners", "There is only one owner.")
BRAND = Brand("Acme")
NOTHING: Mapping[str, Sequence[Finding]] = {"database": (), "machine": (), "mail": ()}


class Watched:
    """A server whose checks find what a test says, on machines that a test names."""

    def __init__(self, it: Harness, to: tuple[str, ...] = ()) -> None:
        self.it, self.found, self.to = it, NOTHING, to

    async def inspect(self, _: Instant) -> Mapping[str, Sequence[Finding]]:
        return self.found

    def watch(self, host: str = "node1") -> AlertWatch:
        it = self.it
        return AlertWatch(
            it.store,
            it.foundation.outbox,
            "http://localhost:8400",
            AlertSettings(enabled=True, to=self.to),
            self.inspect,
            it.foundation.services.kinds,
            Runtime(lambda: it.clock.now, SYSTEM.random),
            host,
        )

    async def minute(self, *hosts: str) -> list[Email]:
        """Let a minute pass; return what was sent in it."""
        before = len(await self.sent())
        self.it.clock.forward(60)
        for host in hosts or ("node1",):
            await self.watch(host).look()
        sent = await self.sent()
        return sent[: len(sent) - before]

    async def sent(self) -> list[Email]:
        return [email for email in await letters(self.it) if email.kind is AlertEmail.ALERT]


def machine(*findings: Finding) -> Mapping[str, Sequence[Finding]]:
    return {**NOTHING, "machine": findings}


async def owner(it: Harness, locale: str = "") -> None:
    """Somebody is an owner with a verified address."""
    accounts = it.foundation.accounts()
    claims = StandardClaims(locale=locale) if locale else StandardClaims.NOTHING
    record = UserRecord("olga", "olga@example.com", "Olga", claims=claims)

    def work(tx: Transaction) -> None:
        user = accounts.register(tx, record, it.clock.now)
        assert isinstance(user, User)
        set_role(tx, user, Role.OWNER, it.foundation.notices, it.clock.now)

    await it.write(work)
    # The change of the role is an event that is told.
    await Watched(it).minute()


async def raised_and_ended(it: Harness) -> None:
    """A problem is reported, and then resolved."""
    here = Watched(it)
    here.found = machine(FULL.finding(free="0"))
    await here.minute()
    await here.minute()
    here.found = NOTHING
    await here.minute()


def tell(tmp_path: Path, database_url: str, story: Callable[[Harness], Awaitable[None]]) -> None:
    run(tmp_path, story, database_url, mail=BOX, background=False)


def test_first_role_of_a_user_is_reported_as_assigned(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)

        def support(tx: Transaction) -> None:
            user = it.foundation.accounts().register(
                tx, UserRecord("sue", "sue@example.com", "Sue"), it.clock.now
            )
            assert isinstance(user, User)
            set_role(tx, user, Role.SUPPORT, None, it.clock.now)

        await it.write(support)
        texts = [write(email, brand=BRAND).text for email in await Watched(it).minute()]
        assert any("sue was assigned the role support." in text for text in texts), texts

    tell(tmp_path, database_url, story)


def test_lasting_problem_is_reported_then_daily_and_then_as_resolved(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        here.found = machine(FULL.finding(free="1 MiB"), WARNED.finding())
        assert not await here.minute()
        (email,) = await here.minute()
        assert email.to == "olga@example.com"
        written = write(email, brand=BRAND)
        assert written.subject == "Acme needs attention"
        assert "1 MiB of the disk are free." in written.text
        assert "node1" in written.text
        assert "one owner" not in written.text
        for _ in range(5):
            assert not await here.minute()
        it.clock.forward(days(1))
        assert len(await here.minute()) == 1
        here.found = NOTHING
        (email,) = await here.minute()
        written = write(email, brand=BRAND)
        assert written.subject == "A problem of Acme is resolved"
        assert "Resolved: disk" in written.text
        assert not await here.minute()
        raised = [name for name in await it.events() if name.startswith("alert.")]
        assert raised == ["alert.raised", "alert.ended"]

    tell(tmp_path, database_url, story)


def test_problem_resolved_in_a_minute_is_not_reported(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        for _ in range(3):
            here.found = machine(FULL.finding(free="0"))
            assert not await here.minute()
            here.found = NOTHING
            assert not await here.minute()

    tell(tmp_path, database_url, story)


def test_problem_is_ended_only_by_checks_of_its_machine(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        here.found = machine(FULL.finding(free="0"))
        await here.minute()
        assert len(await here.minute()) == 1
        here.found = NOTHING
        assert not await here.minute("node2")
        assert len(await here.minute("node1")) == 1

    tell(tmp_path, database_url, story)


def test_failed_checks_end_no_problem(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        here.found = {**NOTHING, "database": (FULL.finding(free="0"),)}
        await here.minute()
        assert len(await here.minute()) == 1
        here.found = {**NOTHING, "database": (FAILED.finding(part="database"),)}
        assert not await here.minute()
        (email,) = await here.minute()
        assert "These checks failed: database." in write(email, brand=BRAND).text
        here.found = NOTHING
        (email,) = await here.minute()
        assert email.values["ended"].split("|") == ["disk", "database"]

    tell(tmp_path, database_url, story)


def test_parallel_checks_send_one_email_per_problem(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        here.found = {**machine(FULL.finding(free="0")), "mail": (FULL.finding(free="1"),)}
        await here.minute()
        it.clock.forward(60)
        await asyncio.gather(*(here.watch(f"node{n % 4}").look() for n in range(64)))
        # One about the installation; the machines have seen theirs for the first time, but node1.
        hosts = [email.values["host"] for email in await here.sent() if email.values["problems"]]
        assert sorted(hosts) == ["", "node1"]

    tell(tmp_path, database_url, story)


def test_alarming_event_is_emailed_once(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        assert not await here.minute()
        await it.client("web1")
        it.clock.forward(30)
        await it.write(lambda tx: tx.events.add(RefreshTokenReused("web1", "gr_1"), it.clock.now))
        (email,) = await here.minute()
        written = write(email, brand=BRAND)
        assert written.subject == "Something happened at Acme that you should know"
        assert "A replaced refresh token of the app web1 was used" in written.text
        for _ in range(15):
            assert not await here.minute()
        assert await it.count("alerts") == 0

    tell(tmp_path, database_url, story)


def test_alerts_go_to_the_addresses_of_the_settings(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it, ("ops@example.com", "night@example.com"))
        here.found = machine(FULL.finding(free="0"))
        await here.minute()
        sent = await here.minute()
        assert {email.to for email in sent} == {"ops@example.com", "night@example.com"}

    tell(tmp_path, database_url, story)


@pytest.mark.parametrize(
    ("locale", "subject"),
    [("de", "braucht Aufmerksamkeit"), ("es", "necesita atención"), ("fr", "demande attention")],
)
def test_alert_is_in_the_language_of_the_administrator(
    tmp_path: Path, locale: str, subject: str
) -> None:
    async def story(it: Harness) -> None:
        await owner(it, locale)
        here = Watched(it)
        here.found = machine(FAILED.finding(part="machine"))
        await here.minute()
        (email,) = await here.minute()
        written = write(email, brand=BRAND)
        assert subject in written.subject
        assert "These checks failed" not in written.text

    tell(tmp_path, "", story)


def test_problems_of_a_removed_machine_are_deleted(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        await owner(it)
        here = Watched(it)
        here.found = machine(FULL.finding(free="0"))
        await here.minute("node1", "node2")
        it.clock.forward(days(2))
        here.found = NOTHING
        await here.minute("node2")
        await it.write(lambda tx: sweep(tx, it.clock.now))
        rows = await it.read(lambda tx: tx.db.rows("SELECT host FROM alert_rounds ORDER BY host"))
        assert [row[0] for row in rows] == ["", ":events", "node2"]
        assert await it.count("alerts") == 0

    tell(tmp_path, database_url, story)
