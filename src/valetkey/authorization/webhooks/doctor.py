"""Checks of webhooks: receivers that fail."""

from urllib.parse import urlsplit

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Installation,
    Level,
    RemedyButton,
    moment,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks.model import ADDRESS
from valetkey.authorization.webhooks.storage import WebhookQueue, Webhooks
from valetkey.kernel.moment import minutes
from valetkey.kernel.text import translatable

_FAILING = minutes(1)

WEBHOOK_FAILING = Condition(
    "webhook_failing",
    Level.WARNING,
    "webhook %(webhook)s",
    translatable(
        "The receiver %(host)s of a webhook has failed since %(at)s, last with %(outcome)s. "
        "Waiting messages: %(count)s."
    ),
    translatable("Look at its responses:"),
    "valetkey webhook attempts %(webhook)s",
    page="how-to/operate/alerts/webhook-failing",
    console=f"{ADDRESS}/%(webhook)s",
    remedy=RemedyButton(translatable("Show its responses")),
)
WEBHOOK_FAILED = WEBHOOK_FAILING.as_bad("webhook_failed")
WEBHOOK_DISABLED = Condition(
    "webhook_disabled",
    Level.ERROR,
    "webhook %(webhook)s",
    translatable(
        "A webhook was disabled (%(because)s): %(host)s has failed since %(at)s, last with "
        "%(outcome)s. Waiting messages: %(count)s."
    ),
    translatable("Fix the receiver, then:"),
    "valetkey webhook enable %(webhook)s",
    page="how-to/operate/webhooks",
    console=f"{ADDRESS}/%(webhook)s",
    remedy=RemedyButton(translatable("Enable webhook"), Permission.SETTINGS, "enable"),
)

WEBHOOKS_GOOD = Condition(
    "webhooks_good",
    Level.OK,
    "webhooks",
    translatable("No delivery is failing. Webhooks: %(count)s."),
)


def webhooks(tx: Transaction, installation: Installation) -> Findings:
    """Find the operator's webhooks whose deliveries fail, or that were disabled for that reason."""
    operator_webhooks = Webhooks.of(tx).of_operator()
    for webhook in operator_webhooks:
        since = webhook.failing_since
        if since is None:
            continue
        # Only the host: not every role may see the address.
        host = urlsplit(webhook.url).hostname
        outcome = next((it.outcome for it in Webhooks.of(tx).attempts(webhook.id, 1)), "-")
        values = {"webhook": webhook.id, "host": host, "at": moment(since), "outcome": outcome}
        values["count"] = str(WebhookQueue.of(tx).waiting_for(webhook.id))
        if webhook.is_fault:
            yield WEBHOOK_DISABLED.finding(because=webhook.disabled_because, **values)
        else:
            judged = WEBHOOK_FAILED if installation.now - since > _FAILING else WEBHOOK_FAILING
            yield judged.finding(**values)
    if operator_webhooks and not any(webhook.failing_since for webhook in operator_webhooks):
        yield WEBHOOKS_GOOD.finding(count=len(operator_webhooks))


CHECKS = (
    DatabaseCheck(
        "webhooks",
        webhooks,
        (WEBHOOK_FAILING, WEBHOOK_FAILED, WEBHOOK_DISABLED, WEBHOOKS_GOOD),
        translatable("Webhooks"),
    ),
)
