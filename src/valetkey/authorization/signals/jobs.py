"""Push tokens to receivers, at least once and in order per stream, from any worker (RFC 8935)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

import msgspec
from msgspec import Struct

from valetkey.authorization.background.logout_delivery import (
    ReceiverTasks,
    asked_pause,
    pause_after,
)
from valetkey.authorization.background.maintenance import BATCH, Gauges, set_queue
from valetkey.authorization.feature import Job, Parts
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.signals.model import (
    LEASE,
    MOST_FAILURES,
    MOST_REJECTIONS,
    MOST_WAITING,
    SignalFailure,
    SignalMessage,
    SignalStream,
    StreamStatus,
)
from valetkey.authorization.signals.rules.streams import StreamChanges
from valetkey.authorization.signals.rules.tokens import MEDIA_TYPE, EventTokens
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.signing_keys import NoSigningKey
from valetkey.fetch.outbound import JSON, Fetched, Unfetchable
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import ordered_id
from valetkey.kernel.text import printable
from valetkey.web import log

_LOOK_EVERY = 1.0
_BOUND_EVERY = 10.0
_BATCH = 500
_EXCERPT = 200
_FAILURE_MEMORY = days(30)
"""How long failures are listed."""

_SEALED = "keyring"
_KEYS = "signing_key"
_EXPIRED = "expired"
_RETRIED = frozenset({"authentication_failed", "access_denied"})
"""Errors of RFC 8935 that say nothing about the token."""

Post = Callable[[str, bytes, str], Awaitable[Fetched]]
"""Posts a token to a URL with an Authorization header, "" for none; raises Unfetchable."""


class ReceiverError(Struct, frozen=True):
    """The body of a response with status 400 (RFC 8935 section 2.3)."""

    err: str
    description: str = ""


_ERROR = msgspec.json.Decoder(ReceiverError)


class _Answer(Struct, frozen=True):
    outcome: str
    description: str = ""
    retry_after: int = 0
    accepted: bool = False
    rejected: bool = False
    """Whether the receiver says that the token is invalid."""


@dataclass(frozen=True, slots=True)
class SignalDelivery:
    """Push to receivers. Any number of processes may do so concurrently.

    Each stream has a task of its own, so that a slow receiver delays no other.
    """

    store: Store
    tokens: EventTokens
    changes: StreamChanges
    post: Post
    runtime: Runtime

    async def deliver(self) -> None:
        """Attempt due tokens of any process, every second."""
        tasks = ReceiverTasks(self.deliver_some, "signals.failed")
        try:
            while True:
                tasks.begin(await self.due())
                await rest(_LOOK_EVERY)
        finally:
            await tasks.close()

    async def keep_bounded(self) -> None:
        """Bound queues and logs, every ten seconds."""
        while True:
            await self.bound()
            await rest(_BOUND_EVERY)

    async def bound(self) -> None:
        """Drop what waits too long or is too much, and shorten long logs."""
        now = self.runtime.now()
        for stream in await self.store.read(lambda tx: SignalStreams.of(tx).all()):
            dropped = await self.store.write(partial(_bound, stream, now), done_by=SYSTEM)
            if dropped:
                log.warning("signals.dropped", stream=stream.id, tokens=dropped)
            while await self.store.write(partial(_trim, stream.id), done_by=SYSTEM) == _BATCH:
                pass

    async def due(self) -> Sequence[str]:
        """Return the streams that have due tokens."""
        now = self.runtime.now()
        return await self.store.read(lambda tx: SignalStreams.of(tx).due(now))

    async def deliver_some(self, stream_id: str) -> bool:
        """Attempt the next tokens of one stream; return whether there may be more."""
        now = self.runtime.now()

        def lease(tx: Transaction) -> tuple[SignalStream, Client, list[SignalMessage]] | None:
            stream = SignalStreams.of(tx).find(stream_id)
            if stream is None or not stream.is_push or stream.retry_at > now:
                return None
            client = tx.clients.find(stream.client_id)
            if client is None or client.disabled_at is not None:
                return None
            leased = SignalQueue.of(tx).lease_next(stream, now, later(now, LEASE))
            return stream, client, list(leased)

        batch = await self.store.write(lease, done_by=SYSTEM)
        if batch is None or not batch[2]:
            return False
        stream, client, leased = batch
        went = await asyncio.gather(*(self._attempt(stream, client, message) for message in leased))
        return all(went)

    async def _attempt(self, stream: SignalStream, client: Client, message: SignalMessage) -> bool:
        now = self.runtime.now()
        answer = (
            _Answer(_EXPIRED)
            if message.expires_at <= now
            else await self._send(stream, client, message, now)
        )
        failed = max(message.attempts, stream.failures + 1)
        again = later(now, pause_after(failed, answer.retry_after, self.runtime.random))
        dropped = answer.outcome == _EXPIRED or (
            answer.rejected and message.attempts >= MOST_REJECTIONS
        )
        failure = SignalFailure(
            ordered_id("sf", now, self.runtime.random),
            stream.id,
            message.id,
            message.kind,
            now,
            message.attempts,
            answer.outcome,
            answer.description,
            dropped,
        )

        def finish(tx: Transaction) -> None:
            _finish(tx, message, failure, now, again, accepted=answer.accepted)

        await self.store.write(finish, done_by=SYSTEM)
        metrics.SIGNALS.add("delivered" if answer.accepted else "failed")
        if not answer.accepted:
            log.info(
                "signals.undelivered",
                stream=stream.id,
                attempts=message.attempts,
                reason=answer.outcome,
            )
        return answer.accepted or dropped

    async def _send(
        self, stream: SignalStream, client: Client, message: SignalMessage, now: Instant
    ) -> _Answer:
        authorization = self.changes.authorization(stream)
        if authorization is None:
            return _Answer(_SEALED)
        try:
            token = await self.tokens.sign(self.tokens.claims(stream, client, message), now)
        except NoSigningKey:
            return _Answer(_KEYS)
        try:
            response = await self.post(stream.url, token.encode("ascii"), authorization)
        except Unfetchable as failure:
            return _Answer(failure.check)
        if HTTPStatus(200) <= response.status < HTTPStatus(300):
            return _Answer(str(response.status), accepted=True)
        if response.status == HTTPStatus.BAD_REQUEST and (error := _error_of(response)) is not None:
            return _Answer(error.err, error.description, 0, rejected=error.err not in _RETRIED)
        return _Answer(str(response.status), "", asked_pause(response))


def sweep(tx: Transaction, now: Instant) -> int:
    """Delete a batch of failures that are no longer listed."""
    return SignalStreams.of(tx).sweep(Instant(now - _FAILURE_MEMORY), BATCH)


def read_gauges(tx: Transaction, now: Instant) -> None:
    """Set the metrics of the queue and of the streams."""
    queue = SignalQueue.of(tx)
    set_queue("signal", queue.waiting(), queue.oldest(), now)
    metrics.SIGNAL_FAILING.replace(
        {
            (stream.id,): 0 if stream.failing_since is None else max(0, now - stream.failing_since)
            for stream in SignalStreams.of(tx).all()
        }
    )


GAUGES = Gauges((metrics.SIGNAL_FAILING,), read_gauges)


def jobs(parts: Parts) -> tuple[Job, ...]:
    """Return what runs in the background of every worker."""
    outgoing = parts.outgoing

    async def post(url: str, body: bytes, authorization: str) -> Fetched:
        return await outgoing.post(url, body, MEDIA_TYPE, authorization=authorization, accept=JSON)

    delivery = SignalDelivery(
        parts.store.acting(SYSTEM),
        EventTokens(parts.notices.issuer, parts.keys, Subjects(parts.keyring.fingerprint_key)),
        StreamChanges((), parts.keyring.sealer),
        post,
        parts.runtime,
    )
    return (delivery.deliver, delivery.keep_bounded)


def _error_of(response: Fetched) -> ReceiverError | None:
    try:
        error = _ERROR.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return ReceiverError(_shown(error.err), _shown(error.description)) if error.err else None


def _shown(text: str) -> str:
    return printable(text[:_EXCERPT])


def _finish(
    tx: Transaction,
    message: SignalMessage,
    failure: SignalFailure,
    now: Instant,
    again: Instant,
    *,
    accepted: bool,
) -> None:
    """Write the result of an attempt."""
    streams, queue = SignalStreams.of(tx), SignalQueue.of(tx)
    if accepted:
        queue.finish(message.id)
        streams.succeeded(message.receiver, now)
        return
    if failure.dropped:
        if queue.finish(message.id):
            streams.log(failure)
            streams.count_dropped(message.receiver, 1)
        return
    if queue.postpone(message, again):
        streams.log(failure)
        streams.failed(message.receiver, now, again)


def _bound(stream: SignalStream, now: Instant, tx: Transaction) -> int:
    queue = SignalQueue.of(tx)
    if stream.status is StreamStatus.DISABLED:
        queue.clear(stream.id, _BATCH)
        return 0
    dropped = queue.drop_expired(stream.id, now, _BATCH)
    more = queue.waiting_for(stream.id) - MOST_WAITING
    if more > 0:
        dropped += queue.drop_oldest(stream.id, min(more, _BATCH))
    if dropped:
        SignalStreams.of(tx).count_dropped(stream.id, dropped)
    return dropped


def _trim(stream_id: str, tx: Transaction) -> int:
    return SignalStreams.of(tx).trim(stream_id, MOST_FAILURES, _BATCH)
