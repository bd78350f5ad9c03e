"""Apply one webhook of the file: the operator's, identified by its URL."""

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.webhooks import (
    ENTROPY,
    WebhookChanges,
    disable_webhook,
    enable_webhook,
)
from valetkey.authorization.model.webhook import Webhook
from valetkey.authorization.operations.server_records import WebhookWanted, target_of
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying.file import DeclaredEntry
from valetkey.cli.applying.step import Action, Declared, Step, changed_or_kept, invalid_entry
from valetkey.cli.register.store import Opened
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import Secret
from valetkey.kernel.webhook import is_webhook_secret

_FIELDS = ("url", "description", "events")


class WantedWebhook(Struct, frozen=True):
    """A webhook of the file, with random bytes for its id and its secret."""

    wanted: DeclaredEntry
    entropy: bytes


def prepared(opened: Opened, wanted: DeclaredEntry) -> WantedWebhook:
    """Draw the random bytes for a webhook, outside any transaction."""
    return WantedWebhook(wanted, opened.runtime.random(ENTROPY))


def changes(opened: Opened) -> WebhookChanges:
    """Return the service that creates and changes webhooks."""
    return WebhookChanges(opened.settings, opened.keyring.sealer, opened.runtime.random)


def apply_webhook(
    tx: Transaction, keeper: WebhookChanges, webhook: WantedWebhook, now: Instant
) -> Step:
    """Create or change the webhook. Raises InvalidEntry if the rules do not allow it."""
    wanted, secret = webhook.wanted, webhook.wanted.secret
    if secret is not None and not is_webhook_secret(secret.reveal()):
        fault = MetadataError("secret", "whsec_ and base64 of 24 to 64 bytes")
        raise invalid_entry(wanted, [fault])
    there = _there(tx, wanted)
    if there is None:
        return _create(tx, keeper, webhook, now)
    changed = keeper.change(tx, there, target_of(_declared_values(wanted, there)), now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    names = [name for name in _FIELDS if getattr(changed, name) != getattr(there, name)]
    if secret is not None and not keeper.has_secret(changed, secret.reveal()):
        keeper.rotate(tx, changed, webhook.entropy, now, secret.reveal())
        names.append("secret (the one before also signs for a day)")
    if "disabled" in wanted.given:
        switch = disable_webhook if wanted.given["disabled"] is True else enable_webhook
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.WEBHOOK, changed.id)
    return changed_or_kept("webhook", changed.url, names, owned)


def _create(tx: Transaction, keeper: WebhookChanges, webhook: WantedWebhook, now: Instant) -> Step:
    wanted, secret = webhook.wanted, webhook.wanted.secret
    target = target_of(_declared_values(wanted, None))
    given = None if secret is None else secret.reveal()
    try:
        made = keeper.create(tx, target, webhook.entropy, now, secret=given)
    except Refused as refused:
        raise invalid_entry(wanted, [MetadataError("url", refused.refusal.description)]) from None
    if isinstance(made, tuple):
        raise invalid_entry(wanted, made)
    if wanted.given.get("disabled") is True:
        disable_webhook(tx, made.webhook, now)
    shown = Secret(made.secret) if secret is None else None
    owned = Declared(AppliedKind.WEBHOOK, made.webhook.id, is_new=True)
    return Step(Action.CREATE, "webhook", target.url, secret=shown, declares=(owned,))


def _there(tx: Transaction, wanted: DeclaredEntry) -> Webhook | None:
    """Return the operator's webhook with this URL, or with its previous one; None without one."""
    known = tx.webhooks.of_operator()
    url, earlier = wanted.text("url"), wanted.text("moved_from")
    found = [each for each in known if each.url == url]
    before = [each for each in known if earlier and each.url == earlier]
    if len(found) > 1 or len(before) > 1:
        ids = ", ".join(each.id for each in (found if len(found) > 1 else before))
        raise invalid_entry(
            wanted, [MetadataError("url", f"that of one webhook; delete all but one: {ids}")]
        )
    if found and before:
        right = "an address without a webhook; both addresses have one"
        raise invalid_entry(wanted, [MetadataError("moved_from", right)])
    return next(iter(found or before), None)


def _declared_values(wanted: DeclaredEntry, there: Webhook | None) -> WebhookWanted:
    """Return the declared values of the webhook; an existing webhook keeps the others."""
    given = {name: wanted.given[name] for name in _FIELDS if name in wanted.given}
    try:
        said = msgspec.convert(given, WebhookWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(wanted, faults_of(error, given, WebhookWanted)) from None
    return WebhookWanted(
        said.url,
        said.events if there is None or "events" in given else list(there.events),
        said.description if there is None or "description" in given else there.description,
    )
