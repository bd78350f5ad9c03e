"""Deliver queued events to webhooks, at least once and in order per subject, from any worker."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

import msgspec

from valetkey.authorization.model.event.webhooks import WebhookDisabled
from valetkey.authorization.model.webhook import (
    LEASE,
    LONGEST_PAUSE,
    TEST,
    Webhook,
    WebhookAttempt,
    WebhookMessage,
    secret_place,
)
from valetkey.authorization.storage.administration.webhooks import WantedEvents
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel import metrics
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, Lifetime, later, minutes, seconds
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import ordered_id
from valetkey.kernel.webhook import webhook_signature
from valetkey.web import log

PAUSES = (seconds(5), seconds(30), minutes(2), minutes(10), LONGEST_PAUSE)
"""Longest pauses after the first, second, … failed attempt; each is shortened by up to half."""

AT_ONCE = 4
"""Messages that one process sends to one webhook at a time; a failing one gets a single message."""

_LOOK_EVERY = 1.0
_ACCEPTED = range(200, 300)
_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)
_EXCERPT = 200
_MISSING = "event_expired"
_SEALED = "keyring"

Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[Fetched]]
"""Posts JSON to a URL; raises Unfetchable."""


@dataclass(frozen=True, slots=True)
class _Answer:
    outcome: str
    excerpt: str = ""
    retry_after: int = 0

    @property
    def is_accepted(self) -> bool:
        return self.outcome.isdigit() and int(self.outcome) in _ACCEPTED

    @property
    def is_final(self) -> bool:
        return self.is_accepted or self.outcome == _MISSING


@dataclass(frozen=True, slots=True)
class WebhookDelivery:
    """Deliver to webhooks. Any number of processes may do so concurrently.

    Each webhook has a task of its own, so that a slow receiver delays no other.
    """

    store: Store
    keyring: Keyring
    post: Post
    runtime: Runtime
    clock: Callable[[], float]
    _under_way: dict[str, asyncio.Task[None]] = field(
        default_factory=dict[str, asyncio.Task[None]], repr=False, compare=False
    )

    async def keep_wanted(self) -> None:
        """Read every second for which events there are webhooks."""
        wanted = self.store.wanted
        try:
            while True:
                await read_wanted(self.store, wanted)
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            # Stale names could miss a new webhook's events.
            wanted.names = None

    async def deliver(self) -> None:
        """Attempt due messages of any process, every second."""
        try:
            while True:
                await self.begin()
                await asyncio.sleep(_LOOK_EVERY)
        finally:
            # Another process retries when the lease has expired.
            tasks = tuple(self._under_way.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def begin(self) -> None:
        """Start a task for each webhook that has due messages and no task here."""
        now = self.runtime.now()
        for webhook_id in await self.store.read(lambda tx: tx.webhooks.due(now)):
            if webhook_id not in self._under_way:
                task = asyncio.create_task(self._deliver_to(webhook_id))
                self._under_way[webhook_id] = task
                task.add_done_callback(partial(self._end, webhook_id))

    def _end(self, webhook_id: str, task: "asyncio.Task[None]") -> None:
        del self._under_way[webhook_id]
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error("webhook.failed", failure)

    async def _deliver_to(self, webhook_id: str) -> None:
        while await self.deliver_some(webhook_id):
            pass

    async def deliver_some(self, webhook_id: str) -> bool:
        """Attempt a few messages of one webhook; return whether there may be more."""
        now = self.runtime.now()
        webhook, leased = await self.store.write(lambda tx: _lease(tx, webhook_id, now))
        if webhook is None or not leased:
            return False
        went = await asyncio.gather(*(self._attempt(webhook, each) for each in leased))
        return all(went)

    async def _attempt(self, webhook: Webhook, message: WebhookMessage) -> bool:
        now, began = self.runtime.now(), self.clock()
        answer = await self._send(webhook, message, now)
        took = int((self.clock() - began) * 1_000)
        attempt = WebhookAttempt(
            ordered_id("wa", now, self.runtime.random),
            webhook.id,
            message.event_id,
            message.kind,
            now,
            message.attempts,
            answer.outcome,
            took,
            answer.excerpt,
        )
        again = later(now, self._pause(max(message.attempts, webhook.failures + 1), answer))
        await self.store.write(lambda tx: _finish(tx, message, attempt, answer, now, again))
        metrics.WEBHOOKS.add("delivered" if answer.is_accepted else "failed")
        if not answer.is_final:
            log.info(
                "webhook.undelivered",
                webhook=webhook.id,
                attempts=message.attempts,
                reason=answer.outcome,
            )
        return answer.is_final

    async def _send(self, webhook: Webhook, message: WebhookMessage, now: Instant) -> _Answer:
        event = await self.store.read(lambda tx: tx.events.find(message.event_id))
        if message.expires_at <= now or (event is None and message.kind != TEST):
            return _Answer(_MISSING)
        body = body_of(message, event)
        signatures = [
            webhook_signature(secret, message.event_id, now, body)
            for secret in self._secrets(webhook, now)
        ]
        if not signatures:
            return _Answer(_SEALED)
        headers = {
            "webhook-id": message.event_id,
            "webhook-timestamp": str(now),
            "webhook-signature": " ".join(signatures),
        }
        try:
            found = await self.post(webhook.url, body, headers)
        except Unfetchable as failure:
            return _Answer(failure.check)
        retry_after = found.retry_after
        asked = int(retry_after) if _SECONDS.fullmatch(retry_after) else 0
        excerpt = found.body[:_EXCERPT].decode("ascii", "replace")
        shown = "".join(letter if letter.isprintable() else " " for letter in excerpt)
        return _Answer(str(found.status), shown, min(asked, LONGEST_PAUSE))

    def _secrets(self, webhook: Webhook, now: Instant) -> Sequence[str]:
        sealed = [webhook.sealed]
        if webhook.previous_sealed and webhook.previous_until and now < webhook.previous_until:
            sealed.append(webhook.previous_sealed)
        opened = [self.keyring.sealer.open(each, secret_place(webhook.id)) for each in sealed]
        return [each.decode() for each in opened if each is not None]

    def _pause(self, failures: int, answer: _Answer) -> Lifetime:
        longest = PAUSES[min(failures, len(PAUSES)) - 1]
        jitter = int.from_bytes(self.runtime.random(2), "big") / 65_536
        return Lifetime(max(int(longest * (1 - jitter / 2)), answer.retry_after))


async def read_wanted(store: Store, wanted: WantedEvents) -> None:
    """Read the names of events that have webhooks; "" stands for every event."""
    webhooks = await store.read(lambda tx: tx.webhooks.all())
    wanted.names = frozenset(
        name for each in webhooks if each.disabled_at is None for name in (each.events or ("",))
    )


def body_of(message: WebhookMessage, event: EventRecord | None) -> bytes:
    """Return the JSON body: the same bytes at each attempt."""
    at = message.created_at if event is None else event.at
    data: dict[str, object] = {}
    if event is not None:
        data = msgspec.json.decode(event.data, type=dict[str, object])
        data["done_by"] = event.done_by
    return msgspec.json.encode(
        {
            "type": message.kind,
            "timestamp": datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z"),
            "data": data,
        }
    )


def _lease(
    tx: Transaction, webhook_id: str, now: Instant
) -> tuple[Webhook | None, Sequence[WebhookMessage]]:
    webhook = tx.webhooks.find(webhook_id)
    if webhook is None or webhook.disabled_at is not None or webhook.retry_at > now:
        return None, ()
    limit = 1 if webhook.failures else AT_ONCE
    return webhook, tx.webhooks.lease(webhook_id, now, later(now, LEASE), limit)


def _finish(
    tx: Transaction,
    message: WebhookMessage,
    attempt: WebhookAttempt,
    answer: _Answer,
    now: Instant,
    again: Instant,
) -> None:
    tx.webhooks.log(attempt)
    if answer.is_final:
        tx.webhook_messages.finish(message.id)
        if answer.is_accepted:
            tx.webhooks.succeeded(message.webhook_id)
        return
    gone = answer.outcome == str(int(HTTPStatus.GONE))
    late = again >= message.expires_at
    if not tx.webhook_messages.postpone(message, again):
        return
    tx.webhooks.failed(message.webhook_id, again)
    if (gone or late) and tx.webhooks.disable(
        message.webhook_id, "gone" if gone else "undelivered", now
    ):
        tx.events.add(WebhookDisabled(message.webhook_id, "gone" if gone else "undelivered"), now)
