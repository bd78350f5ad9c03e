"""Checks of webhooks: receivers that fail."""

from urllib.parse import urlsplit

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Findings,
    Level,
    Site,
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
    console=ADDRESS,
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
    console=ADDRESS,
)


def webhooks(tx: Transaction, site: Site) -> Findings:
    """Find the operator's webhooks whose deliveries fail, or that were disabled for that reason."""
    for each in Webhooks.of(tx).of_operator():
        since = each.failing_since
        if since is None:
            continue
        # Only the host: not every role may see the address.
        host = urlsplit(each.url).hostname
        outcome = next((it.outcome for it in Webhooks.of(tx).attempts(each.id, 1)), "-")
        told = {"webhook": each.id, "host": host, "at": moment(since), "outcome": outcome}
        told["count"] = str(WebhookQueue.of(tx).waiting_for(each.id))
        if each.is_fault:
            yield WEBHOOK_DISABLED.found(because=each.disabled_because, **told)
        else:
            judged = WEBHOOK_FAILED if site.now - since > _FAILING else WEBHOOK_FAILING
            yield judged.found(**told)


CHECKS = (DatabaseCheck("webhooks", webhooks, (WEBHOOK_FAILING, WEBHOOK_FAILED, WEBHOOK_DISABLED)),)
