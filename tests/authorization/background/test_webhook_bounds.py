"""Queues and logs of webhooks are bounded, and those who look after one are told."""

import asyncio
from pathlib import Path

import pytest

from tests.authorization.background.receivers import (
    BY_ID,
    Receiver,
    create,
    delivery_to,
    drain,
    happen,
    path_of,
    waiting,
    webhook_state,
)
from tests.authorization.endpoints.admin_api.programs import give_role, person
from tests.support.harness import ADA, Harness, run
from valetkey.authorization.email.message import write
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.model.user import Role
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks import jobs as webhook_delivery
from valetkey.authorization.webhooks import rules as webhooks
from valetkey.authorization.webhooks.operations import AttemptList
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace


def test_full_queue_disables_the_webhook_and_its_log_is_trimmed(
    tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_delivery, "MOST_ATTEMPTS", 3)
    monkeypatch.setattr(webhooks, "MOST_WAITING", 4)

    async def story(it: Harness) -> None:
        receiver = Receiver(status=500)
        delivery = delivery_to(it, receiver)
        shown = await create(it, "user.enabled")
        await happen(it, 7, times=4)
        await delivery.bound()
        assert (await webhook_state(it))[1] == ""
        await happen(it, 8)
        await asyncio.gather(*(delivery.bound() for _ in range(4)))
        assert (await webhook_state(it))[1] == "full"
        assert (await it.events()).count("webhook.disabled") == 1
        # Nothing is queued now. Enabled, it may have as many again.
        await happen(it, 7)
        assert await waiting(it) == 5
        await it.perform(BY_ID["enable_webhook"], path_of(shown))
        await happen(it, 7, times=4)
        await delivery.bound()
        assert (await webhook_state(it))[1] == ""
        receiver.status = 204
        await drain(it, delivery, shown.webhook_id)
        it.clock.now = Instant(it.clock.now + 1)
        await happen(it, 9)
        await drain(it, delivery, shown.webhook_id)
        assert len(receiver.sent) == 10
        await delivery.bound()
        log = await it.perform(BY_ID["list_webhook_attempts"], path_of(shown))
        assert isinstance(log, AttemptList)
        assert len(log.items) == 3
        assert log.items[0].event_id == receiver.messages[-1][0]

    run(tmp_path, story, database=database_url)


def test_administrators_get_one_email_without_the_address_of_the_receiver(tmp_path: Path) -> None:
    async def story(it: Harness) -> None:
        await give_role(it, ADA, Role.OWNER)
        auditor = await person(it, "grace", Role.AUDITOR, 1002)

        def verify(tx: Transaction) -> None:
            for uid in (ADA, auditor):
                user = tx.users.find(uid)
                assert user is not None
                assert tx.users.change(replace(user, email_verified_at=it.clock.now))

        await it.write(verify)
        delivery = delivery_to(it, Receiver(status=410))
        shown = await create(it, "user.enabled", "user.disabled")
        await happen(it, 7)
        await happen(it, 8)
        await drain(it, delivery, shown.webhook_id)
        kept = await it.read(lambda tx: tx.mails.for_mailbox(it.clock.now, 10))
        emails = [delivery.notices.outbox.open(mail) for mail in kept]
        assert [notice.uid for notice in emails if notice is not None] == [ADA]
        (email,) = emails
        assert email is not None
        text = write(email, brand=Brand("Example")).text
        assert "receiver.example" in text
        assert f"/admin/webhooks/{shown.webhook_id}" in text
        assert "/hook" not in text

    run(tmp_path, story)
