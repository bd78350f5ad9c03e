"""Deliver to receivers, each at its own pace; deliver logout tokens to apps."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from functools import partial

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.accounts import LogoutTokenDelivered, LogoutTokenGivenUp
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.user import LEASE, Delivery, User
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.id_token import LogoutTokens
from valetkey.authorization.tokens.signing_keys import NoSigningKey
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel.moment import Instant, Lifetime, hours, later, minutes, seconds
from valetkey.kernel.pace import rest
from valetkey.kernel.refusal import Refused
from valetkey.kernel.runtime import Runtime
from valetkey.web import log

PAUSES = (seconds(2), seconds(10), minutes(1), minutes(5), minutes(30), hours(1))
"""Pauses after the first, second, … failed attempt; the last one applies to all further ones."""

BATCH = 16
"""Deliveries that one process attempts at a time."""

_LOOK_EVERY = 1.0
_HELD_UP = 2.0
_HEARD = range(200, 300)

Post = Callable[[str, Mapping[str, str]], Awaitable[Fetched]]
"""Posts a form to a URL that an app registered; raises Unfetchable."""


@dataclass(frozen=True, slots=True)
class LogoutDelivery:
    """Deliver logout tokens. Any number of processes may do so concurrently."""

    store: Store
    tokens: LogoutTokens
    post: Post
    runtime: Runtime
    _under_way: set[asyncio.Task[None]] = field(
        default_factory=set[asyncio.Task[None]], repr=False, compare=False
    )

    async def deliver(self) -> None:
        """Attempt due deliveries of any process, every second."""
        while True:
            while await self._deliver_some():
                pass
            await rest(_LOOK_EVERY)

    async def at_once(self, leased: Sequence[Delivery]) -> None:
        """Attempt these now, concurrently; after two seconds they continue in the background."""
        if leased:
            await asyncio.wait(
                [self._begin(self._attempt(delivery)) for delivery in leased], timeout=_HELD_UP
            )

    async def close(self) -> None:
        """Cancel attempts in progress: another worker retries when the lease has expired."""
        tasks = tuple(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, attempt: Coroutine[object, object, None]) -> asyncio.Task[None]:
        # It outlives the request that may have started it.
        task = asyncio.create_task(attempt, context=Context())
        # Held here: the event loop keeps only weak references to tasks.
        self._under_way.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error("delivery.failed", failure)

    async def _deliver_some(self) -> bool:
        now = self.runtime.now()
        if not await self.store.read(lambda tx: tx.deliveries.is_any_due(now)):
            return False
        until = later(now, LEASE)
        leased = await self.store.write(
            lambda tx: tx.deliveries.lease(now, until, BATCH), done_by=SYSTEM
        )
        if leased:
            await asyncio.wait([self._begin(self._attempt(delivery)) for delivery in leased])
        return len(leased) == BATCH

    async def _attempt(self, delivery: Delivery) -> None:
        now = self.runtime.now()
        client, user = await self.store.read(
            lambda tx: (tx.clients.find(delivery.client_id), tx.users.find(delivery.uid))
        )
        if client is None or client.disabled_at is not None or user is None:
            await self.store.write(
                lambda tx: _give_up(tx, delivery, now, "client_gone"), done_by=SYSTEM
            )
        elif not client.openid.backchannel_logout_uri:
            await self.store.write(
                lambda tx: _give_up(tx, delivery, now, "no_address"), done_by=SYSTEM
            )
        elif await self._deliver(delivery, user, client, now):
            await self.store.write(lambda tx: _arrived(tx, delivery, now), done_by=SYSTEM)
        else:
            await self.store.write(lambda tx: _again(tx, delivery, now), done_by=SYSTEM)

    async def _deliver(self, delivery: Delivery, user: User, client: Client, now: Instant) -> bool:
        """Return whether the app confirmed the logout."""
        try:
            token = await self.tokens.mint(
                user, client, delivery.session_id, now, token_id=delivery.id
            )
            answer = await self.post(client.openid.backchannel_logout_uri, {"logout_token": token})
        except Unfetchable as failure:
            reason = failure.check
        except Refused as failure:
            reason = failure.refusal.check
        except NoSigningKey:
            reason = "signing_key"
        else:
            if answer.status in _HEARD:
                return True
            reason = f"status {answer.status}"
        log.info("delivery.unheard", client=client.id, attempts=delivery.attempts, reason=reason)
        return False


def pause(attempts: int) -> Lifetime:
    """Return the pause after this number of attempts, at least one."""
    return PAUSES[min(attempts, len(PAUSES)) - 1]


def _arrived(tx: Transaction, delivery: Delivery, now: Instant) -> None:
    if tx.deliveries.finish(delivery.id):
        event = LogoutTokenDelivered(
            delivery.uid, delivery.client_id, delivery.session_id, delivery.attempts
        )
        tx.events.add(event, now)


def _again(tx: Transaction, delivery: Delivery, now: Instant) -> None:
    due_at = later(now, pause(delivery.attempts))
    if due_at < delivery.expires_at:
        tx.deliveries.postpone(delivery, due_at)
    else:
        _give_up(tx, delivery, now, "unheard")


def _give_up(tx: Transaction, delivery: Delivery, now: Instant, because: str) -> None:
    if tx.deliveries.finish(delivery.id):
        event = LogoutTokenGivenUp(
            delivery.uid, delivery.client_id, delivery.session_id, delivery.attempts, because
        )
        tx.events.add(event, now)


LONGEST_PAUSE = minutes(30)
"""The longest pause between attempts, also if the receiver asks for more."""

RECEIVER_PAUSES = (seconds(5), seconds(30), minutes(2), minutes(10), LONGEST_PAUSE)
"""Longest pauses after the first, second, … failed attempt; each is shortened by up to half."""

_SECONDS = re.compile(r"[0-9]{1,9}", re.ASCII)


def pause_after(failures: int, seconds: int, random: Callable[[int], bytes]) -> Lifetime:
    """Return the pause after so many failed attempts; at least what the receiver `asked` for."""
    longest = RECEIVER_PAUSES[min(failures, len(RECEIVER_PAUSES)) - 1]
    jitter = int.from_bytes(random(2), "big") / 65_536
    return Lifetime(max(int(longest * (1 - jitter / 2)), seconds))


def asked_pause(response: Fetched) -> int:
    """Return the seconds in the Retry-After of a response; 0 for none or another form."""
    text = response.retry_after
    return min(int(text), LONGEST_PAUSE) if _SECONDS.fullmatch(text) else 0


class ReceiverTasks:
    """A task for each receiver that has due messages, so that a slow one delays no other.

    `deliver` attempts a few messages of one receiver and returns whether there may be more;
    `failed` is what a failure of the program itself is called in the log.
    """

    def __init__(
        self, deliver: Callable[[str], Coroutine[object, object, bool]], failed: str
    ) -> None:
        """Start without tasks."""
        self._deliver = deliver
        self._failed = failed
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def begin(self, receivers: Iterable[str]) -> None:
        """Start a task for each of these receivers that has none here."""
        for receiver in receivers:
            if receiver not in self._under_way:
                task = asyncio.create_task(self._deliver_all(receiver))
                self._under_way[receiver] = task
                task.add_done_callback(partial(self._end, receiver))

    async def close(self) -> None:
        """Cancel all tasks; another process retries when their leases have expired."""
        tasks = tuple(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver_all(self, receiver: str) -> None:
        while await self._deliver(receiver):
            pass

    def _end(self, receiver: str, task: "asyncio.Task[None]") -> None:
        del self._under_way[receiver]
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error(self._failed, failure)
