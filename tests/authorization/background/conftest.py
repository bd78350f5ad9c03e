"""Only senders of a test send to webhooks, never those of its server."""

import asyncio

import pytest

from valetkey.authorization.webhooks.jobs import WebhookDelivery


@pytest.fixture(autouse=True)
def _only_senders_of_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own sender would lease what the senders here are to lease."""

    async def idle(_: WebhookDelivery) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(WebhookDelivery, "deliver", idle)
