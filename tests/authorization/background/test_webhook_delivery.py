"""Webhook delivery: what was committed arrives, in order, however often senders die."""

import asyncio
import json
import random
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.authorization.background.receivers import (
    BY_ID,
    URL,
    Receiver,
    create,
    delivery_to,
    drain,
    happen,
    path_of,
    waiting,
    webhook_state,
)
from tests.fetch.canary import answer, door, listening
from tests.support.harness import Harness, run
from tests.support.wait import until
from valetkey.authorization.background.logout_delivery import RECEIVER_PAUSES
from valetkey.authorization.features import KINDS, hooks
from valetkey.authorization.model.event.accounts import UserEnabled
from valetkey.authorization.model.event.event import SYSTEM, USUAL_ACTOR
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.webhooks.jobs import read_wanted
from valetkey.authorization.webhooks.model import LEASE, LIFETIME, WebhookWanted
from valetkey.authorization.webhooks.operations import (
    AttemptList,
    MessageQueued,
    WebhookSecretShown,
)
from valetkey.authorization.webhooks.rules import ENTROPY, WebhookChanges
from valetkey.authorization.webhooks.storage import SubscribedEvents, Webhooks
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.sdk import verify_webhook


def test_message_is_committed_with_its_event_and_signed(tmp_path: Path, database_url: str) -> None:
    async def story(it: Harness) -> None:
        receiver = Receiver(body=b"<b>\r\nx-injected: 1\x00" + b"a" * 900)
        delivery = delivery_to(it, receiver)
        shown = await create(it, "user.enabled")

        def undone(tx: Transaction) -> None:
            tx.events.add(UserEnabled(Uid(7)), it.clock.now)
            raise LookupError

        try:
            await it.write(undone)
        except LookupError:
            assert await waiting(it) == 0
        await happen(it, 7)
        await drain(it, delivery, shown.webhook_id)
        headers, body = receiver.sent[0]
        message = verify_webhook(headers, body, shown.secret, now=it.clock.now)
        assert (message.type, message.data) == (
            "user.enabled",
            {"uid": 7, "done_by": "cli test"},
        )
        assert await it.read(lambda tx: tx.events.find(message.id)) is not None
        renewed = await it.perform(BY_ID["create_webhook_secret"], path_of(shown))
        assert isinstance(renewed, WebhookSecretShown)
        await happen(it, 7)
        await drain(it, delivery, shown.webhook_id)
        headers, body = receiver.sent[1]
        for secret in (shown.secret, renewed.secret):
            verify_webhook(headers, body, secret, now=it.clock.now)
        it.clock.now = Instant(it.clock.now + 86_400)
        await happen(it, 7)
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent[2][0]["webhook-signature"].split()) == 1
        log = await it.perform(BY_ID["list_webhook_attempts"], path_of(shown))
        assert isinstance(log, AttemptList)
        assert [attempt.outcome for attempt in log.items] == ["204"] * 3
        assert all(len(attempt.excerpt) <= 200 for attempt in log.items)
        assert all(attempt.excerpt.isprintable() for attempt in log.items)

    run(tmp_path, story, database=database_url)


def test_failing_receiver_is_called_less_often_and_then_disabled(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        receiver = Receiver(status=500)
        delivery = delivery_to(it, receiver)
        shown = await create(it)
        before = await waiting(it)
        await happen(it, 7)
        await drain(it, delivery, shown.webhook_id)
        first = len(receiver.sent)
        assert first == before + 1
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent) == first
        receiver.status, receiver.retry_after = 429, "900"
        it.clock.now = Instant(it.clock.now + RECEIVER_PAUSES[-1])
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent) == first + 1
        it.clock.now = Instant(it.clock.now + 899)
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent) == first + 1
        receiver.status, receiver.retry_after = 0, "9" * 5_000
        it.clock.now = Instant(it.clock.now + LIFETIME - 2 * RECEIVER_PAUSES[-1])
        while (await webhook_state(it))[1] == "":
            it.clock.now = Instant(it.clock.now + 600)
            await drain(it, delivery, shown.webhook_id)
            assert len(receiver.sent) < first + 60
        assert (await webhook_state(it))[1] == "undelivered"
        assert "webhook.disabled" in await it.events()
        # Enabled again: what is too old is dropped, new events arrive.
        receiver.status, receiver.retry_after = 204, ""
        await it.perform(BY_ID["enable_webhook"], path_of(shown))
        it.clock.now = Instant(it.clock.now + RECEIVER_PAUSES[-1] + LEASE)
        await happen(it, 8)
        await drain(it, delivery, shown.webhook_id)
        arrived = [message["data"] for _, message in receiver.messages]
        assert {"uid": 8, "done_by": "cli test"} in arrived
        assert (await waiting(it), (await webhook_state(it))) == (0, (0, ""))

    run(tmp_path, story)


def test_long_queue_of_one_subject_is_sent_after_an_outage(
    tmp_path: Path, database_url: str
) -> None:
    async def story(it: Harness) -> None:
        receiver = Receiver(status=500)
        delivery = delivery_to(it, receiver)
        shown = await create(it, "user.enabled")
        await happen(it, 7, times=1_001)
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent) == 1
        receiver.status = 204
        it.clock.now = Instant(it.clock.now + RECEIVER_PAUSES[-1])
        assert await delivery.deliver_some(shown.webhook_id)
        assert receiver.messages[1][0] == receiver.messages[0][0]
        assert await waiting(it) == 1_000

    run(tmp_path, story, database=database_url)


def test_webhook_is_disabled_when_the_receiver_answers_410(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        receiver = Receiver(status=410)
        delivery = delivery_to(it, receiver)
        shown = await create(it, "user.enabled")
        await happen(it, 7)
        await drain(it, delivery, shown.webhook_id)
        assert await webhook_state(it) == (1, "gone")
        await happen(it, 7)
        assert await waiting(it) == 1

    run(tmp_path, story)


def test_test_message_and_replay_keep_their_ids(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        receiver = Receiver()
        delivery = delivery_to(it, receiver)
        await happen(it, 7)
        (event,) = [record for record in await it.event_records() if record.name == "user.enabled"]
        shown = await create(it, "user.enabled")
        queued = await it.perform(BY_ID["test_webhook"], path_of(shown))
        assert isinstance(queued, MessageQueued)
        for changed in (True, False):
            again = await it.perform(
                BY_ID["replay_webhook_event"], path_of(shown, event_id=event.id)
            )
            assert again == MessageQueued(changed, event.id)
        await drain(it, delivery, shown.webhook_id)
        assert {message_id for message_id, _ in receiver.messages} == {queued.event_id, event.id}
        await it.perform(BY_ID["replay_webhook_event"], path_of(shown, event_id=event.id))
        await drain(it, delivery, shown.webhook_id)
        assert receiver.messages[-1][0] == event.id
        await it.perform(BY_ID["replay_webhook_event"], path_of(shown, event_id=event.id))
        await it.perform(BY_ID["delete_webhook"], path_of(shown))
        sent = len(receiver.sent)
        assert (len(receiver.sent), await delivery.due()) == (sent, [])

    run(tmp_path, story)


def test_order_and_ids_survive_senders_that_die(tmp_path: Path, database_url: str) -> None:
    """Four senders are cancelled at random, as if killed; a lease ends by the clock."""

    async def story(it: Harness) -> None:
        chance = random.Random(14)
        seen: dict[int, list[str]] = defaultdict(list)
        under_way: set[int] = set()

        class Slow(Receiver):
            async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Fetched:
                data = json.loads(body)["data"]
                uid = int(data["uid"])
                assert uid not in under_way
                under_way.add(uid)
                try:
                    await asyncio.sleep(chance.random() / 500)
                    seen[uid].append(headers["webhook-id"])
                    return Fetched(500 if chance.random() < 0.1 else 200, "", b"")
                finally:
                    under_way.discard(uid)

        shown = await create(it, "user.enabled")
        for _ in range(4):
            for uid in range(1, 9):
                await happen(it, uid, 2)
        order: dict[int, list[str]] = {}
        now = it.clock.now
        leased = await it.read(lambda tx: Webhooks.of(tx).due(now))
        assert leased == [shown.webhook_id]
        for _ in range(400):
            senders = [
                asyncio.create_task(drain(it, delivery_to(it, Slow()), shown.webhook_id))
                for _ in range(4)
            ]
            await asyncio.sleep(chance.random() / 50)
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)
            if not await waiting(it):
                break
            it.clock.now = Instant(it.clock.now + max(LEASE, RECEIVER_PAUSES[-1]))
            # The lifetime of messages is not what is tried here.
            if it.clock.now - now > LIFETIME / 2:
                await drain(it, delivery_to(it, Slow()), shown.webhook_id)
        assert await waiting(it) == 0
        for uid, ids in seen.items():
            order[uid] = list(dict.fromkeys(ids))
            assert len(order[uid]) == 8
            # A duplicate comes before its successor: no message overtakes another.
            assert ids == sorted(ids, key=order[uid].index)
        assert len(seen) == 8

    run(tmp_path, story, database=database_url)


def test_listener_accepts_only_subscribed_events(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        store = it.foundation.store
        await read_wanted(store, store.listener(SubscribedEvents))
        assert store.listener(SubscribedEvents).names == frozenset()
        assert not store.listener(SubscribedEvents).accepts("user.enabled", None)
        await create(it, "user.enabled")
        await read_wanted(store, store.listener(SubscribedEvents))
        assert [
            store.listener(SubscribedEvents).accepts(name, "app")
            for name in ("user.enabled", "user.disabled")
        ] == [
            True,
            False,
        ]

    run(tmp_path, story)


def test_without_webhooks_nothing_is_read_until_another_process_creates_one(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_LOOK_EVERY", "_BOUND_EVERY"):
        monkeypatch.setattr(f"valetkey.authorization.webhooks.jobs.{name}", 0.001)
    reads: list[Engine] = []

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def read(store: Store, work: object) -> Any:
            reads.append(store.engine)
            return run(store, work)

        return read

    for kind in ("read", "scan"):
        monkeypatch.setattr(Store, kind, counted(getattr(Store, kind)))

    async def story(it: Harness) -> None:
        subscribed, delivery = (
            it.foundation.store.listener(SubscribedEvents),
            delivery_to(it, Receiver()),
        )
        jobs = (delivery.follow_webhooks, delivery.deliver, delivery.keep_bounded)
        tasks = [asyncio.create_task(job()) for job in jobs]
        async with asyncio.timeout(20):
            # PostgreSQL is asked for changes until it answers; then nothing changes any more.
            while not subscribed.none_exist or it.foundation.store.engine in reads:
                reads.clear()
                await asyncio.sleep(0.2)
        elsewhere = connect(database_url, directory=tmp_path)
        store = Store(elsewhere, it.foundation.runtime.random, SYSTEM, hooks(it.settings))
        changes = WebhookChanges(it.settings, it.foundation.keyring.sealer, store.random, KINDS)
        target = WebhookWanted(URL, ["user.enabled"])
        await store.write(
            lambda tx: changes.create(tx, target, bytes(ENTROPY), it.clock.now), done_by=USUAL_ACTOR
        )
        await elsewhere.close()
        await until(lambda: subscribed.names == frozenset({"user.enabled"}))
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (subscribed.names, subscribed.none_exist) == (None, False)

    run(tmp_path, story, database=database_url)


def test_requests_go_through_the_guarded_client(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        redirect = answer(b"", status="302 Found", more="location: http://127.0.0.1:1/\r\n")
        for reply, outcome in ((redirect, "302"), (answer(b"x" * 300_000), "fetch.large")):
            async with listening(reply) as canary:
                fetch, _ = door()
                try:
                    sent = fetch.post_json(canary.url, b"{}", {"webhook-id": "ev_1"})
                    result = str((await sent).status)
                except Unfetchable as failure:
                    result = failure.check
                assert result == outcome
                assert canary.connections == 1
                assert b"webhook-id: ev_1" in canary.heard[0]
                assert b"content-type: application/json" in canary.heard[0]
        # A name that was public when the webhook was created and is private now.
        fetch, _ = door(("10.0.0.7",), inside=False)
        receiver = Receiver()
        delivery = delivery_to(it, receiver)
        inside = replace(delivery, post=fetch.post_json)
        shown = await create(it, "user.enabled")
        await happen(it, 7)
        assert not await inside.deliver_some(shown.webhook_id)
        log = await it.perform(BY_ID["list_webhook_attempts"], path_of(shown))
        assert isinstance(log, AttemptList)
        assert [attempt.outcome for attempt in log.items] == ["fetch.address"]

    run(tmp_path, story)
