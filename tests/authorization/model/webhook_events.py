"""A webhook from its creation to its end."""

from tests.support.harness import Harness
from valetkey.authorization.webhooks.model import WebhookWanted
from valetkey.authorization.webhooks.operations import (
    CHANGE_WEBHOOK,
    CREATE_WEBHOOK,
    DISABLE_WEBHOOK,
    ENABLE_WEBHOOK,
    ISSUE_WEBHOOK_SECRET,
    REMOVE_WEBHOOK,
    TEST_WEBHOOK,
    WebhookChange,
    WebhookSecretShown,
)


async def webhooks(it: Harness, secrets: set[str]) -> None:
    """Each operation once; adds the secrets to `secrets`."""
    webhook = await it.perform(CREATE_WEBHOOK, {}, WebhookWanted("https://hook.example/"))
    assert isinstance(webhook, WebhookSecretShown)
    one = {"webhook_id": webhook.webhook_id}
    renewed = await it.perform(ISSUE_WEBHOOK_SECRET, one)
    assert isinstance(renewed, WebhookSecretShown)
    secrets |= {webhook.secret, renewed.secret}
    for operation in (TEST_WEBHOOK, DISABLE_WEBHOOK, ENABLE_WEBHOOK):
        await it.perform(operation, one)
    await it.perform(CHANGE_WEBHOOK, one, WebhookChange(description="for the shop"))
    await it.perform(REMOVE_WEBHOOK, one)
    await it.perform(CREATE_WEBHOOK, {}, WebhookWanted("https://hook.example/", ["user.removed"]))
