"""E35: a receiver of webhooks that is down for an hour, and senders that are killed.

Senders are processes of their own with the server's delivery and its guarded HTTP client. They
share a clock that the experiment moves: an hour and a lease pass at once.
"""

import asyncio
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from ctypes import c_longlong
from dataclasses import dataclass, field
from ipaddress import ip_network
from itertools import pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import cast

from bench.ports import free_port
from tests.reliability.outcome import Outcome
from tests.support import postgres
from tests.support.wait import until_found
from valetkey.authorization.email.notices import MailOutbox, Notices
from valetkey.authorization.features import hooks
from valetkey.authorization.model.event.accounts import UserEnabled
from valetkey.authorization.model.event.event import SYSTEM as BY_SYSTEM
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.webhooks.jobs import WebhookDelivery
from valetkey.authorization.webhooks.model import LEASE, Webhook, secret_place
from valetkey.authorization.webhooks.storage import WebhookQueue, Webhooks
from valetkey.config.sections.people import MailSettings
from valetkey.config.settings import Settings
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.database.migrate import migrate
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, hours
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.kernel.webhook import fresh_webhook_secret
from valetkey.sdk import verify_webhook

_EVENTS = 500
"""Events for each kill."""

_USERS = 250
_BATCH = 100
_SENDERS = 2
_STILL = 3.0
_ANSWER = b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
_PROCESSES = multiprocessing.get_context("forkserver")


def _store(engine: Engine) -> Store:
    return Store(engine, SYSTEM.random, hooks=hooks(Settings()))


def webhook_delivery(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill senders `times` times, half of them on each engine, after an hour without a receiver."""
    _PROCESSES.set_forkserver_preload([__name__])
    with postgres.database() as url:
        halves = {f"sqlite:///{folder}/webhooks.db": times // 2, url: times - times // 2}
        results = [
            asyncio.run(_run(database, kills, chance))
            for database, kills in halves.items()
            if kills
        ]
    events = sum(result.events for result in results)
    counts = (
        f"{events} events on SQLite and PostgreSQL, "
        f"{sum(result.kills for result in results)} kills: "
        f"{sum(result.missing for result in results)} missing, "
        f"{sum(result.overtaken for result in results)} out of order, "
        f"{sum(result.repeated for result in results)} sent twice with the same id"
    )
    held = not any(result.missing or result.overtaken or result.unknown for result in results)
    promise = "each event arrives at least once, in order per user, duplicates with the same id"
    return Outcome("E35 webhooks", promise, counts, held)


@dataclass(frozen=True, slots=True)
class _Found:
    events: int
    kills: int
    missing: int
    unknown: int
    overtaken: int
    repeated: int


@dataclass
class _Receiver:
    """Verifies and notes each message, in the order of arrival."""

    secret: str
    arrived: list[str] = field(default_factory=list[str])
    ids: set[str] = field(default_factory=set[str])
    by_user: dict[int, list[str]] = field(default_factory=dict[int, list[str]])

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read one request and answer it."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")[1:]
            pairs = (line.partition(":") for line in head)
            headers = {name.lower(): text.strip() for name, _, text in pairs}
            body = await reader.readexactly(int(headers["content-length"]))
            self._note(headers, body)
            writer.write(_ANSWER)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            # Its sender was killed.
            return
        finally:
            writer.close()

    def _note(self, headers: Mapping[str, str], body: bytes) -> None:
        at = int(headers["webhook-timestamp"])
        message = verify_webhook(headers, body, self.secret, now=at)
        uid = message.data["uid"]
        assert isinstance(uid, int)
        self.arrived.append(message.id)
        self.ids.add(message.id)
        self.by_user.setdefault(uid, []).append(message.id)


@dataclass
class _Senders:
    """Processes that deliver, and what they are started with."""

    url: str
    keyring: str
    clock: c_longlong
    chance: random.Random
    kills: int = 0
    alive: list[BaseProcess] = field(default_factory=list[BaseProcess])

    def start(self) -> None:
        """Start those that are missing."""
        while len(self.alive) < _SENDERS:
            process = _PROCESSES.Process(target=_send, args=(self.url, self.keyring, self.clock))
            process.start()
            self.alive.append(process)

    def kill(self, *, every: bool = False) -> None:
        """Kill one, or all; the leases of the dead end at once if nobody else lives."""
        for process in self.chance.sample(self.alive, len(self.alive) if every else 1):
            process.kill()
            process.join()
            self.alive.remove(process)
            self.kills += 1
        if not self.alive:
            self.clock.value += LEASE + 1


async def _run(url: str, kills: int, chance: random.Random) -> _Found:
    engine = connect(url, directory=Path("/"))
    await migrate(engine, "valetkey.authorization.storage.schema")
    store, keyring = _store(engine), Keyring.fresh(SYSTEM.random)
    secret, port = fresh_webhook_secret(SYSTEM.random), free_port()
    sealed = keyring.sealer.seal(secret.encode(), secret_place("wh_1"), SYSTEM.random)
    now = SYSTEM.now()
    webhook = Webhook(
        "wh_1",
        f"http://127.0.0.1:{port}/",
        "",
        ("user.enabled",),
        sealed,
        None,
        None,
        0,
        Instant(0),
        "",
        None,
        now,
    )
    await store.write(lambda tx: Webhooks.of(tx).add(webhook, 1), done_by=BY_SYSTEM)
    clock = cast("c_longlong", _PROCESSES.Value(c_longlong, 0, lock=False))
    senders = _Senders(url, keyring.text(), clock, chance)
    events = kills * _EVENTS
    try:
        senders.start()
        await _write_events(store, events)
        ended = now + hours(1)
        while SYSTEM.now() + clock.value < ended:
            await _fail_once(store, clock)
            if senders.kills < kills // 10:
                senders.kill()
                senders.start()
        expected = await store.read(_queued)
        receiver = _Receiver(secret)
        senders.kill(every=True)
        clock.value += hours(1)
        server = await asyncio.start_server(receiver.answer, "127.0.0.1", port)
        async with server:
            senders.start()
            await _drain(store, receiver, senders, events, kills)
    finally:
        while senders.alive:
            senders.kill(every=True)
        await engine.close()
    return _found(receiver, expected, senders.kills)


async def _write_events(store: Store, events: int) -> None:
    for first in range(0, events, _BATCH):
        uids = [Uid(1 + number % _USERS) for number in range(first, min(events, first + _BATCH))]

        def write(tx: Transaction, uids: Sequence[Uid] = uids) -> None:
            for uid in uids:
                tx.events.add(UserEnabled(uid), SYSTEM.now())

        await store.write(write, done_by=BY_SYSTEM)


async def _fail_once(store: Store, clock: c_longlong) -> None:
    """Move the clock to the next attempt, and wait until it has failed."""

    async def failures() -> Webhook:
        webhook = await store.read(lambda tx: Webhooks.of(tx).find("wh_1"))
        assert webhook is not None
        return webhook

    before = await failures()
    clock.value = max(clock.value, before.retry_at - SYSTEM.now() + LEASE)

    async def failed() -> bool:
        return (await failures()).failures > before.failures

    await until_found(failed)


def _waiting(tx: Transaction) -> bool:
    return WebhookQueue.of(tx).waiting_for("wh_1") > 0


def _queued(tx: Transaction) -> Mapping[int, Sequence[str]]:
    """Return the ids that wait, by user, in the order of their events."""
    order: dict[int, list[str]] = {}
    rows = tx.db.rows(
        "SELECT o.event_id, e.uid FROM outbox o JOIN events e ON e.id = o.event_id"
        " WHERE o.webhook_id = 'wh_1' ORDER BY o.position, o.id"
    )
    for event_id, uid in rows:
        order.setdefault(int(uid), []).append(str(event_id))
    return order


async def _drain(
    store: Store, receiver: _Receiver, senders: _Senders, events: int, kills: int
) -> None:
    """Kill senders at even distances until every message is delivered."""
    seen, since, begun = 0, time.monotonic(), senders.kills
    left = max(1, kills - begun)
    while len(receiver.ids) < events or await store.read(_waiting):
        await asyncio.sleep(0.02)
        if len(receiver.arrived) > seen:
            seen, since = len(receiver.arrived), time.monotonic()
        due = begun + left * len(receiver.ids) // events if senders.kills < kills else 0
        if senders.kills < due:
            senders.kill(every=senders.chance.random() < 1 / _SENDERS)
        elif time.monotonic() - since > _STILL:
            # Messages wait for the leases of the dead.
            senders.kill(every=True)
            since = time.monotonic()
        senders.start()


def _found(receiver: _Receiver, expected: Mapping[int, Sequence[str]], kills: int) -> _Found:
    sent = Counter(receiver.arrived)
    expected_ids = {event_id for ids in expected.values() for event_id in ids}
    overtaken = 0
    for uid, ids in receiver.by_user.items():
        places = {event_id: index for index, event_id in enumerate(expected.get(uid, ()))}
        order = [places.get(event_id, -1) for event_id in ids]
        # A duplicate comes before its successor.
        overtaken += sum(later < earlier for earlier, later in pairwise(order))
    return _Found(
        events=len(expected_ids),
        kills=kills,
        missing=len(expected_ids - sent.keys()),
        unknown=len(sent.keys() - expected_ids),
        overtaken=overtaken,
        repeated=sum(count - 1 for count in sent.values()),
    )


def _send(url: str, keyring: str, clock: c_longlong) -> None:
    asyncio.run(_sending(url, keyring, clock))


async def _sending(url: str, text: str, clock: c_longlong) -> None:
    keyring = Keyring.parse(text)
    runtime = Runtime(lambda: Instant(SYSTEM.now() + clock.value), SYSTEM.random)
    store = _store(connect(url, directory=Path("/")))
    http = OutboundHttp((ip_network("127.0.0.0/8"),), runtime.now)
    delivery = WebhookDelivery(
        store.acting(BY_SYSTEM),
        keyring,
        http.post_json,
        runtime,
        time.monotonic,
        Subjects(keyring.fingerprint_key),
        Notices("https://auth.example", MailOutbox(MailSettings(), keyring, SYSTEM.random)),
    )
    await delivery.deliver()
