"""A receiver of webhooks, and the sender that a test drives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.harness import Harness
from valetkey.authorization.email.notices import MailOutbox, Notices
from valetkey.authorization.model.event.accounts import UserEnabled
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.model.user import Uid
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.webhooks.jobs import (
    WebhookDelivery,
)
from valetkey.authorization.webhooks.model import WebhookWanted
from valetkey.authorization.webhooks.operations import (
    WEBHOOKS,
    WebhookList,
    WebhookSecretShown,
)
from valetkey.authorization.webhooks.storage import WebhookQueue
from valetkey.config.sections.people import MailSettings, MailTransport
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel.runtime import Runtime

URL = "https://receiver.example/hook"
_MAIL = MailSettings(transport=MailTransport.MAILBOX)
BY_ID = {operation.id: operation for operation in WEBHOOKS}


@dataclass
class Receiver:
    """A receiver that is told by tests what to answer."""

    status: int = 204
    retry_after: str = ""
    body: bytes = b""
    messages: list[tuple[str, dict[str, object]]] = field(
        default_factory=list[tuple[str, dict[str, object]]]
    )
    sent: list[tuple[Mapping[str, str], bytes]] = field(
        default_factory=list[tuple[Mapping[str, str], bytes]]
    )

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> Fetched:
        """Note the message and answer."""
        assert url == URL
        self.sent.append((headers, body))
        self.messages.append((headers["webhook-id"], json.loads(body)))
        if not self.status:
            raise Unfetchable("slow")
        return Fetched(self.status, "text/plain", self.body, self.retry_after)


def delivery_to(it: Harness, receiver: Receiver) -> WebhookDelivery:
    clock = it.clock
    runtime = Runtime(lambda: clock.now, it.foundation.runtime.random)
    foundation = it.foundation
    store = foundation.store.acting(SYSTEM)
    outbox = MailOutbox(_MAIL, foundation.keyring, runtime.random)
    return WebhookDelivery(
        store,
        foundation.keyring,
        receiver.post,
        runtime,
        lambda: 0.0,
        Subjects(foundation.keyring.fingerprint_key),
        Notices(foundation.issuer, outbox),
    )


async def create(it: Harness, *events: str, url: str = URL) -> WebhookSecretShown:
    target = WebhookWanted(url, list(events))
    shown = await it.perform(BY_ID["create_webhook"], {}, target)
    assert isinstance(shown, WebhookSecretShown)
    return shown


async def happen(it: Harness, uid: int, times: int = 1) -> None:
    def work(tx: Transaction) -> None:
        for _ in range(times):
            tx.events.add(UserEnabled(Uid(uid)), it.clock.now)

    await it.write(work)


async def waiting(it: Harness) -> int:
    return await it.read(lambda tx: WebhookQueue.of(tx).waiting())


async def webhook_state(it: Harness) -> tuple[int, str]:
    listed = await it.perform(BY_ID["list_webhooks"], {})
    assert isinstance(listed, WebhookList)
    return listed.items[0].failures, listed.items[0].disabled_because


async def drain(it: Harness, delivery: WebhookDelivery, webhook_id: str) -> None:
    while await delivery.deliver_some(webhook_id):
        pass


def path_of(shown: WebhookSecretShown, **more: str) -> dict[str, str]:
    return {"webhook_id": shown.webhook_id, **more}
