"""Apply one webhook of the file: the operator's, identified by its URL."""

from collections.abc import Callable, Iterator, Mapping

import msgspec
from msgspec.structs import asdict

from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    DeclaredKind,
    Step,
    changed_or_kept,
    invalid_entry,
    read_boolean,
    read_text,
    read_texts,
)
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import MetadataError, faults_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks.model import Webhook, WebhookWanted
from valetkey.authorization.webhooks.operations import changes_of
from valetkey.authorization.webhooks.rules import (
    ENTROPY,
    WebhookChanges,
    disable_webhook,
    enable_webhook,
)
from valetkey.authorization.webhooks.storage import Webhooks
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Secret
from valetkey.kernel.webhook import is_webhook_secret

_KIND = "webhook"


def _prepare(services: Services, entry: DeclaredEntry) -> Callable[[Transaction, Instant], Step]:
    entropy, changes = services.random(ENTROPY), changes_of(services)
    return lambda tx, now: _apply(tx, changes, entry, entropy, now)


def _apply(
    tx: Transaction, keeper: WebhookChanges, entry: DeclaredEntry, entropy: bytes, now: Instant
) -> Step:
    secret = entry.secret
    if secret is not None and not is_webhook_secret(secret.reveal()):
        fault = MetadataError("secret", "whsec_ and base64 of 24 to 64 bytes")
        raise invalid_entry(entry, [fault])
    there = _there(tx, entry)
    if there is None:
        return _create(tx, keeper, entry, entropy, now)
    changed = keeper.change(tx, there, _declared_values(entry, there), now)
    if isinstance(changed, tuple):
        raise invalid_entry(entry, changed)
    names = list(there.changed_fields(changed))
    if secret is not None and not keeper.has_secret(changed, secret.reveal()):
        keeper.rotate(tx, changed, entropy, now, secret.reveal())
        names.append("secret (the one before also signs for a day)")
    if "disabled" in entry.values:
        switch = disable_webhook if entry.values["disabled"] is True else enable_webhook
        if switch(tx, changed, now):
            names.append("disabled")
    owned = Declared(_KIND, changed.id)
    return changed_or_kept(_KIND, changed.url, names, owned)


def _switch(
    _services: Services, tx: Transaction, webhook_id: str, pruned_at: Instant | None, now: Instant
) -> str | None:
    """Disable an enabled webhook, or enable one that pruning disabled at this time.

    Return its URL; None if nothing changed.
    """
    webhook = Webhooks.of(tx).find(webhook_id)
    if webhook is None or webhook.disabled_at != pruned_at:
        return None
    done = (disable_webhook if pruned_at is None else enable_webhook)(tx, webhook, now)
    return webhook.url if done else None


def _exported(tx: Transaction) -> Iterator[Mapping[str, object]]:
    """Return the operator's webhooks as tables of a file that, applied, changes nothing."""
    for webhook in Webhooks.of(tx).of_operator():
        table = asdict(webhook.target)
        yield {**table, "disabled": True} if webhook.disabled_at is not None else table


def _create(
    tx: Transaction, keeper: WebhookChanges, entry: DeclaredEntry, entropy: bytes, now: Instant
) -> Step:
    secret = entry.secret
    target = _declared_values(entry, None)
    secret_text = None if secret is None else secret.reveal()
    try:
        made = keeper.create(tx, target, entropy, now, secret=secret_text)
    except Refused as refused:
        raise invalid_entry(entry, [MetadataError("url", refused.refusal.description)]) from None
    if isinstance(made, tuple):
        raise invalid_entry(entry, made)
    if entry.values.get("disabled") is True:
        disable_webhook(tx, made.webhook, now)
    shown = Secret(made.secret) if secret is None else None
    owned = Declared(_KIND, made.webhook.id, is_new=True)
    return Step(
        Action.CREATE, _KIND, target.url, secret=shown, secret_name="secret", declares=(owned,)
    )


def _there(tx: Transaction, entry: DeclaredEntry) -> Webhook | None:
    """Return the operator's webhook with this URL, or with its previous one; None without one."""
    webhooks = Webhooks.of(tx).of_operator()
    url, earlier = entry.text("url"), entry.text("moved_from")
    matches = [webhook for webhook in webhooks if webhook.url == url]
    before = [webhook for webhook in webhooks if earlier and webhook.url == earlier]
    if len(matches) > 1 or len(before) > 1:
        ids = ", ".join(webhook.id for webhook in (matches if len(matches) > 1 else before))
        raise invalid_entry(
            entry, [MetadataError("url", f"that of one webhook; delete all but one: {ids}")]
        )
    if matches and before:
        right = "an address without a webhook; both addresses have one"
        raise invalid_entry(entry, [MetadataError("moved_from", right)])
    return next(iter(matches or before), None)


def _declared_values(entry: DeclaredEntry, there: Webhook | None) -> WebhookWanted:
    """Return the declared values of the webhook; an existing webhook keeps the others."""
    fields = WebhookWanted.__struct_fields__
    values = {name: entry.values[name] for name in fields if name in entry.values}
    try:
        declared = msgspec.convert(values, WebhookWanted)
    except msgspec.ValidationError as error:
        raise invalid_entry(entry, faults_of(error, values, WebhookWanted)) from None
    if there is None:
        return declared
    return replace(there.target, **{name: getattr(declared, name) for name in values})


DECLARED = DeclaredKind(
    name=_KIND,
    table="webhooks",
    readers={
        "url": read_text,
        "moved_from": read_text,
        "events": read_texts,
        "description": read_text,
        "secret": read_text,
        "disabled": read_boolean,
    },
    key="url",
    example="https://…",
    secret_key="secret",
    hold=lambda tx: Webhooks.of(tx).hold_all(),
    prepare=_prepare,
    switch=_switch,
    exported=_exported,
)
