"""Deliver queued events to webhooks, at least once and in order per subject, from any worker."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus
from time import monotonic
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.roles import holders_of
from valetkey.authorization.background.logout_delivery import (
    ReceiverTasks,
    asked_pause,
    pause_after,
)
from valetkey.authorization.background.maintenance import BATCH, Gauges, set_queue
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.feature import Job, Parts
from valetkey.authorization.layout.addresses import DEVELOPER
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.webhooks.model import (
    ADDRESS,
    APP_EVENTS,
    EVENT_EXPIRED,
    FULL,
    GONE,
    LEASE,
    MOST_ATTEMPTS,
    TEST,
    UNDELIVERED,
    Webhook,
    WebhookAttempt,
    WebhookDisabled,
    WebhookEmail,
    WebhookMessage,
    secret_place,
)
from valetkey.authorization.webhooks.rules import may_receive
from valetkey.authorization.webhooks.storage import SubscribedEvents, WebhookQueue, Webhooks
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel import metrics
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import ordered_id
from valetkey.kernel.text import printable
from valetkey.kernel.webhook import webhook_signature
from valetkey.web import log

AT_ONCE = 4
"""Messages that one process sends to one webhook at a time; a failing one gets a single message."""

_LOOK_EVERY = 1.0
_READ_EVERY = 60.0
_BOUND_EVERY = 10.0
_BATCH = 500
_ACCEPTED = range(200, 300)
_EXCERPT = 200
_SEALED = "keyring"
_MOST_TOLD = 50
_ATTEMPT_MEMORY = days(7)
"""How long attempts are listed."""

Post = Callable[[str, bytes, Mapping[str, str]], Awaitable[Fetched]]
"""Posts JSON to a URL; raises Unfetchable."""


class _Answer(Struct, frozen=True):
    outcome: str
    excerpt: str = ""
    retry_after: int = 0

    @property
    def is_accepted(self) -> bool:
        return self.outcome.isdigit() and int(self.outcome) in _ACCEPTED

    @property
    def is_final(self) -> bool:
        return self.is_accepted or self.outcome == EVENT_EXPIRED


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
    subjects: Subjects
    notices: Notices

    @property
    def subscribed(self) -> SubscribedEvents:
        """The events with webhooks, as this process last read them."""
        return self.store.listener(SubscribedEvents)

    async def follow_webhooks(self) -> None:
        """Update the set of events with webhooks, within two seconds of a change.

        And once a minute, because servers of a version before this one do not announce changes.
        """
        store, subscribed = self.store, self.subscribed
        seen, until = -1, 0.0
        try:
            while True:
                changed = store.engine.changed()
                if changed != seen or self.clock() >= until:
                    await read_wanted(store, subscribed)
                    seen, until = changed, self.clock() + _READ_EVERY
                await rest(_LOOK_EVERY)
        finally:
            # Stale names could miss a new webhook's events.
            subscribed.names, subscribed.none_exist = None, False

    async def deliver(self) -> None:
        """Attempt due messages of any process, every second while there are webhooks."""
        tasks = ReceiverTasks(self.deliver_some, "webhook.failed")
        try:
            while True:
                if not self.subscribed.none_exist:
                    tasks.begin(await self.due())
                await rest(_LOOK_EVERY)
        finally:
            await tasks.close()

    async def keep_bounded(self) -> None:
        """Bound queues and logs, every ten seconds while there are webhooks."""
        while True:
            if not self.subscribed.none_exist:
                await self.bound()
            await rest(_BOUND_EVERY)

    async def bound(self) -> None:
        """Disable webhooks with too many queued messages, and shorten long logs."""
        full, long = await self.store.scan(
            lambda tx: (
                Webhooks.of(tx).with_full_queue(),
                Webhooks.of(tx).logged_more(MOST_ATTEMPTS),
            )
        )
        now = self.runtime.now()
        for webhook_id in full:
            give_up = partial(self._give_up, webhook_id=webhook_id, because=FULL, now=now)
            if await self.store.write(give_up, done_by=SYSTEM):
                log.warning("webhook.disabled", webhook=webhook_id, reason=FULL)
        for webhook_id in long:
            while await self.store.write(partial(_trim, webhook_id), done_by=SYSTEM) == _BATCH:
                pass

    async def due(self) -> Sequence[str]:
        """Return the webhooks that have due messages."""
        now = self.runtime.now()
        return await self.store.read(lambda tx: Webhooks.of(tx).due(now))

    async def deliver_some(self, webhook_id: str) -> bool:
        """Attempt a few messages of one webhook; return whether there may be more."""
        now = self.runtime.now()
        webhook, leased = await self.store.write(
            lambda tx: _lease(tx, webhook_id, now), done_by=SYSTEM
        )
        if webhook is None or not leased:
            return False
        went = await asyncio.gather(*(self._attempt(webhook, message) for message in leased))
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
        failed = max(message.attempts, webhook.failures + 1)
        again = later(now, pause_after(failed, answer.retry_after, self.runtime.random))

        def finish(tx: Transaction) -> str:
            fault = _finish(tx, message, attempt, answer, now, again)
            return fault if fault and self._give_up(tx, webhook.id, fault, now) else ""

        if disabled := await self.store.write(finish, done_by=SYSTEM):
            log.warning("webhook.disabled", webhook=webhook.id, reason=disabled)
        metrics.WEBHOOKS.add("delivered" if answer.is_accepted else "failed")
        if not answer.is_final:
            log.info(
                "webhook.undelivered",
                webhook=webhook.id,
                attempts=message.attempts,
                reason=answer.outcome,
            )
        return answer.is_final

    def _give_up(self, tx: Transaction, webhook_id: str, because: str, now: Instant) -> bool:
        """Disable a webhook and notify those responsible; False if it was disabled."""
        webhook = Webhooks.of(tx).find(webhook_id)
        if webhook is None or (because == FULL and not Webhooks.of(tx).is_overfull(webhook_id)):
            return False
        if not Webhooks.of(tx).disable(webhook_id, because, now):
            return False
        tx.events.add(WebhookDisabled(webhook_id, because, webhook.client_id), now)
        _notify(tx, self.notices, webhook, because, now)
        return True

    async def _send(self, webhook: Webhook, message: WebhookMessage, now: Instant) -> _Answer:
        body = await self.store.read(lambda tx: self._body(tx, webhook, message))
        if message.expires_at <= now or body is None:
            return _Answer(EVENT_EXPIRED)
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
            response = await self.post(webhook.url, body, headers)
        except Unfetchable as failure:
            return _Answer(failure.check)
        excerpt = printable(response.body[:_EXCERPT].decode("ascii", "replace"))
        return _Answer(str(response.status), excerpt, asked_pause(response))

    def _body(self, tx: Transaction, webhook: Webhook, message: WebhookMessage) -> bytes | None:
        event = tx.events.find(message.event_id)
        if event is None:
            return body_of(message, None, {}) if message.kind == TEST else None
        if not may_receive(webhook, event.name, event.client_id):
            return None
        data = msgspec.json.decode(event.data, type=dict[str, object])
        if webhook.client_id is None:
            return body_of(message, event, {**data, "done_by": event.done_by})
        client = tx.clients.find(webhook.client_id)
        if client is None:
            return None
        shown: dict[str, object] = {"client_id": client.id}
        shown |= {name: data[name] for name in APP_EVENTS[event.name] if name in data}
        user = None if event.uid is None else tx.users.find(Uid(event.uid))
        if user is not None:
            shown["sub"] = self.subjects.subject_of(user, client)
        return body_of(message, event, shown)

    def _secrets(self, webhook: Webhook, now: Instant) -> Sequence[str]:
        sealed = [webhook.sealed]
        if webhook.previous_sealed and webhook.previous_until and now < webhook.previous_until:
            sealed.append(webhook.previous_sealed)
        opened = [
            self.keyring.sealer.open(sealed_secret, secret_place(webhook.id))
            for sealed_secret in sealed
        ]
        return [secret.decode() for secret in opened if secret is not None]


def sweep(tx: Transaction, now: Instant) -> int:
    """Delete a batch of attempts that are no longer listed."""
    return Webhooks.of(tx).sweep(Instant(now - _ATTEMPT_MEMORY), BATCH)


def read_gauges(tx: Transaction, now: Instant) -> None:
    """Set the metrics of the queue and of the operator's webhooks."""
    queue = WebhookQueue.of(tx)
    set_queue("webhook", queue.waiting(), queue.oldest(), now)
    metrics.WEBHOOK_FAILING.replace(
        {
            (webhook.id,): 0
            if webhook.failing_since is None
            else max(0, now - webhook.failing_since)
            for webhook in Webhooks.of(tx).of_operator()
        }
    )


GAUGES = Gauges((metrics.WEBHOOK_FAILING,), read_gauges)


def jobs(parts: Parts) -> tuple[Job, ...]:
    """Return what runs in the background of every worker."""
    delivery = WebhookDelivery(
        parts.store.acting(SYSTEM),
        parts.keyring,
        parts.outgoing.post_json,
        parts.runtime,
        monotonic,
        Subjects(parts.keyring.fingerprint_key),
        parts.notices,
    )
    return (delivery.follow_webhooks, delivery.deliver, delivery.keep_bounded)


async def read_wanted(store: Store, subscribed: SubscribedEvents) -> None:
    """Read the names of events that have webhooks; "" stands for every event."""
    webhooks = await store.read(lambda tx: Webhooks.of(tx).all())
    subscribed.none_exist = not webhooks
    enabled = [webhook for webhook in webhooks if webhook.disabled_at is None]
    subscribed.apps = frozenset(
        (webhook.client_id, name)
        for webhook in enabled
        if webhook.client_id is not None
        for name in webhook.events
    )
    subscribed.names = frozenset(
        name
        for webhook in enabled
        if webhook.client_id is None
        for name in (webhook.events or ("",))
    )


def body_of(message: WebhookMessage, event: EventRecord | None, data: dict[str, object]) -> bytes:
    """Return the JSON body: the same bytes at each attempt."""
    at = message.created_at if event is None else event.at
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
    webhook = Webhooks.of(tx).find(webhook_id)
    if webhook is None or webhook.disabled_at is not None or webhook.retry_at > now:
        return None, ()
    limit = 1 if webhook.failures else AT_ONCE
    return webhook, WebhookQueue.of(tx).lease_first(webhook_id, now, later(now, LEASE), limit)


def _finish(
    tx: Transaction,
    message: WebhookMessage,
    attempt: WebhookAttempt,
    answer: _Answer,
    now: Instant,
    again: Instant,
) -> str:
    """Write the result of an attempt; return why the webhook is to be disabled, if it is."""
    Webhooks.of(tx).log(attempt)
    if answer.is_final:
        WebhookQueue.of(tx).finish(message.id)
        if answer.is_accepted:
            Webhooks.of(tx).succeeded(message.receiver)
        return ""
    if not WebhookQueue.of(tx).postpone(message, again):
        return ""
    Webhooks.of(tx).failed(message.receiver, now, again)
    if answer.outcome == str(int(HTTPStatus.GONE)):
        return GONE
    return UNDELIVERED if again >= message.expires_at else ""


def _trim(webhook_id: str, tx: Transaction) -> int:
    return Webhooks.of(tx).trim(webhook_id, MOST_ATTEMPTS, _BATCH)


def _notify(
    tx: Transaction, notices: Notices, webhook: Webhook, because: str, now: Instant
) -> None:
    """Notify those responsible that a webhook was disabled.

    The address may hold credentials: only its host is shown.
    """
    app = None if webhook.client_id is None else tx.clients.find(webhook.client_id)
    path = ADDRESS if app is None else f"{DEVELOPER}/apps/{app.id}/webhooks"
    values = {
        "host": urlsplit(webhook.url).hostname or "",
        "app": "" if app is None else app.name or app.id,
        "because": because,
        "link": f"{notices.issuer}{path}/{webhook.id}",
    }
    for user in _administrators(tx, webhook):
        notices.notify(tx, user, WebhookEmail.DISABLED, values, now)


def _administrators(tx: Transaction, webhook: Webhook) -> Sequence[User]:
    """Return the users who can enable the webhook: administrators, or the team of the app."""
    if webhook.client_id is None:
        return holders_of(tx, Permission.SETTINGS, _MOST_TOLD)
    team = tx.members.team(webhook.client_id)
    users = [tx.users.find(membership.uid) for membership in team if membership.owns]
    return [user for user in users if user is not None and user.disabled_at is None]
