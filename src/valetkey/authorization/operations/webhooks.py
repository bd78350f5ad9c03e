"""Operations on webhooks: where chosen events are sent."""

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.model.event.registry import EVENTS
from valetkey.authorization.model.event.webhooks import (
    WebhookCreated,
    WebhookDisabled,
    WebhookEnabled,
    WebhookMessageRequested,
    WebhookRemoved,
    WebhookSecretIssued,
)
from valetkey.authorization.model.webhook import (
    MOST_WEBHOOKS,
    OVERLAP,
    TEST,
    Webhook,
    secret_place,
)
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    Call,
    Operation,
    Result,
    reads,
    unchecked_write,
)
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.server_records import (
    AttemptList,
    AttemptShown,
    MessageQueued,
    WebhookList,
    WebhookSecretShown,
    WebhookWanted,
    webhook_shown,
)
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.protocol.register.links import fetch_fault
from valetkey.authorization.storage.records import subject_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, later
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.webhook import fresh_webhook_secret

_ALL = "/webhooks"
_ONE = "/webhooks/{webhook_id}"
_NAMES = frozenset(event.name for event in EVENTS)
_SHOWN = 100
_ID_BYTES = 16


def list_webhooks(tx: Transaction, call: Call) -> Result:
    """List the webhooks, oldest first."""
    return Result(WebhookList([webhook_shown(each) for each in tx.webhooks.all()]))


def create(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create a webhook and show its secret, once. Refused: too many."""
    _held(tx, call)
    wanted = call.input(WebhookWanted)
    faults = [
        MetadataError(f"events/{place}", "is not the name of an event")
        for place, name in enumerate(wanted.events)
        if name not in _NAMES
    ]
    if fault := fetch_fault(wanted.url, call.services.settings.fetch.allow):
        faults.append(MetadataError("url", f"must be {fault}"))
    if faults:
        return tuple(faults)
    webhook_id = call.new_id("wh")
    secret, sealed = _new_secret(call, webhook_id)
    webhook = Webhook(
        webhook_id,
        wanted.url,
        wanted.description,
        tuple(dict.fromkeys(wanted.events)),
        sealed,
        None,
        None,
        0,
        Instant(0),
        "",
        None,
        call.now,
    )
    if not tx.webhooks.add(webhook, MOST_WEBHOOKS):
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT, f"there are {MOST_WEBHOOKS} webhooks already", "webhook.most"
            )
        )
    tx.events.add(WebhookCreated(webhook_id, webhook.events), call.now)
    return Result(WebhookSecretShown(webhook_id, secret))


def remove(tx: Transaction, call: Call) -> bool:
    """Delete a webhook. Refused: not found."""
    _held(tx, call)
    webhook = _found(tx, call)
    tx.webhooks.remove(webhook.id)
    tx.events.add(WebhookRemoved(webhook.id), call.now)
    return True


def enable(tx: Transaction, call: Call) -> bool:
    """Enable a webhook. False if it was enabled. Refused: not found."""
    _held(tx, call)
    webhook = _found(tx, call)
    enabled = tx.webhooks.enable(webhook.id)
    if enabled:
        tx.events.add(WebhookEnabled(webhook.id), call.now)
    return enabled


def disable(tx: Transaction, call: Call) -> bool:
    """Disable a webhook. False if it was disabled. Refused: not found."""
    _held(tx, call)
    webhook = _found(tx, call)
    disabled = tx.webhooks.disable(webhook.id, "operator", call.now)
    if disabled:
        tx.events.add(WebhookDisabled(webhook.id, "operator"), call.now)
    return disabled


def issue_secret(tx: Transaction, call: Call) -> WebhookSecretShown:
    """Give a webhook a new secret; the one before also signs for a day. Refused: not found."""
    _held(tx, call)
    webhook = _found(tx, call)
    secret, sealed = _new_secret(call, webhook.id)
    tx.webhooks.rotate(webhook.id, webhook.sealed, sealed, later(call.now, OVERLAP))
    tx.events.add(WebhookSecretIssued(webhook.id), call.now)
    return WebhookSecretShown(webhook.id, secret)


def list_attempts(tx: Transaction, call: Call) -> Result:
    """List the newest attempts of a webhook. Refused: not found."""
    found = tx.webhooks.attempts(_found(tx, call).id, _SHOWN)
    return Result(
        AttemptList(
            [
                AttemptShown(
                    each.event_id,
                    each.name,
                    each.at,
                    each.attempt,
                    each.outcome,
                    each.milliseconds,
                    each.excerpt,
                )
                for each in found
            ]
        )
    )


def test(tx: Transaction, call: Call) -> MessageQueued:
    """Queue a test message. Refused: not found; disabled."""
    _held(tx, call)
    return _queue(tx, call, call.new_id("ev"), TEST, "")


def replay(tx: Transaction, call: Call) -> MessageQueued:
    """Queue an earlier event again. Refused: not found; disabled."""
    _held(tx, call)
    event = tx.events.find(call.named("event_id"))
    if event is None:
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such event", "webhook.event"))
    return _queue(tx, call, event.id, event.name, subject_of(event.uid, event.client_id))


def _queue(tx: Transaction, call: Call, event_id: str, name: str, subject: str) -> MessageQueued:
    webhook = _found(tx, call)
    if webhook.disabled_at is not None:
        raise Refused(
            Refusal(
                ErrorCode.CONFLICT, "this webhook is disabled: enable it first", "webhook.disabled"
            )
        )
    queued = tx.webhooks.queue_one(webhook.id, event_id, name, subject, call.now)
    if queued:
        tx.events.add(WebhookMessageRequested(webhook.id, event_id), call.now)
    return MessageQueued(queued, event_id)


def _held(tx: Transaction, call: Call) -> None:
    # First: the role is judged with the actor's own account held.
    tx.webhooks.hold_all()
    require(tx, call.actor, call.operation.permission)


def _found(tx: Transaction, call: Call) -> Webhook:
    webhook = tx.webhooks.find(call.named("webhook_id"))
    if webhook is None:
        raise Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such webhook", "webhook.unknown"))
    return webhook


def _new_secret(call: Call, webhook_id: str) -> tuple[str, str]:
    # Beyond the bytes of the id, so that neither tells of the other.
    secret = fresh_webhook_secret(lambda size: call.chance[_ID_BYTES : _ID_BYTES + size])
    sealer = call.services.outbox.keyring.sealer
    return secret, sealer.seal(secret.encode(), secret_place(webhook_id), call.services.random)


LIST_WEBHOOKS = Operation(
    "list_webhooks",
    "GET",
    _ALL,
    Permission.READ,
    "List webhooks",
    reads(list_webhooks),
    gives=WebhookList,
    lists=True,
    commands=(
        Command(
            columns=(
                ("WEBHOOK", "webhook_id"),
                ("URL", "url"),
                ("EVENTS", "events"),
                ("FAILURES", "failures"),
                ("DISABLED", "disabled_because"),
            ),
            empty="There are no webhooks.",
        ),
    ),
)

CREATE_WEBHOOK = Operation(
    "create_webhook",
    "POST",
    _ALL,
    Permission.SETTINGS,
    "Create a webhook; its signing secret is shown once",
    unchecked_write(create),
    description="It receives events from two seconds later on.",
    takes=WebhookWanted,
    gives=WebhookSecretShown,
    refuses=(409,),
    event=WebhookCreated,
    recent=True,
    commands=(
        Command(
            options=(Option("url", argument=True),),
            example="https://example.com/hook --event user.disabled",
        ),
    ),
)

REMOVE_WEBHOOK = Operation(
    "remove_webhook",
    "DELETE",
    _ONE,
    Permission.SETTINGS,
    "Delete a webhook; what waits for it is not sent",
    unchecked_write(remove),
    gives=Done,
    refuses=(404,),
    event=WebhookRemoved,
    commands=(
        Command(
            question="Delete this webhook? What waits for it is not sent.",
            done="The webhook is deleted.",
        ),
    ),
)

ENABLE_WEBHOOK = Operation(
    "enable_webhook",
    "POST",
    f"{_ONE}/enable",
    Permission.SETTINGS,
    "Enable a webhook; what waits for it is sent",
    unchecked_write(enable),
    gives=Done,
    refuses=(404,),
    event=WebhookEnabled,
    commands=(
        Command(done="The webhook is enabled.", unchanged="The webhook was enabled already."),
    ),
)

DISABLE_WEBHOOK = Operation(
    "disable_webhook",
    "POST",
    f"{_ONE}/disable",
    Permission.SETTINGS,
    "Disable a webhook; events meanwhile are not sent to it",
    unchecked_write(disable),
    gives=Done,
    refuses=(404,),
    event=WebhookDisabled,
    commands=(
        Command(done="The webhook is disabled.", unchanged="The webhook was disabled already."),
    ),
)

ISSUE_WEBHOOK_SECRET = Operation(
    "issue_webhook_secret",
    "POST",
    f"{_ONE}/secret",
    Permission.SETTINGS,
    "Issue a new signing secret; the one before also signs for a day",
    unchecked_write(issue_secret),
    gives=WebhookSecretShown,
    refuses=(404,),
    event=WebhookSecretIssued,
    recent=True,
    commands=(Command("webhook secret"),),
)

LIST_WEBHOOK_ATTEMPTS = Operation(
    "list_webhook_attempts",
    "GET",
    f"{_ONE}/attempts",
    Permission.READ,
    "The newest hundred attempts of a webhook",
    reads(list_attempts),
    gives=AttemptList,
    lists=True,
    refuses=(404,),
    commands=(
        Command(
            "webhook attempts",
            columns=(
                ("EVENT", "event_id"),
                ("NAME", "name"),
                ("ATTEMPT", "attempt"),
                ("OUTCOME", "outcome"),
                ("MS", "milliseconds"),
            ),
            empty="Nothing was sent to it in the last seven days.",
        ),
    ),
)

TEST_WEBHOOK = Operation(
    "test_webhook",
    "POST",
    f"{_ONE}/test",
    Permission.SETTINGS,
    "Send a test message",
    unchecked_write(test),
    gives=MessageQueued,
    refuses=(404, 409),
    event=WebhookMessageRequested,
    commands=(Command(done="A test message is queued."),),
)

REPLAY_WEBHOOK_EVENT = Operation(
    "replay_webhook_event",
    "POST",
    f"{_ONE}/events/{{event_id}}",
    Permission.SETTINGS,
    "Send an event again, or one from before the webhook",
    unchecked_write(replay),
    gives=MessageQueued,
    refuses=(404, 409),
    event=WebhookMessageRequested,
    commands=(
        Command(
            "webhook replay",
            done="The event is queued.",
            unchanged="The event waits in the queue already.",
        ),
    ),
)

WEBHOOKS = (
    LIST_WEBHOOKS,
    CREATE_WEBHOOK,
    REMOVE_WEBHOOK,
    ENABLE_WEBHOOK,
    DISABLE_WEBHOOK,
    ISSUE_WEBHOOK_SECRET,
    LIST_WEBHOOK_ATTEMPTS,
    TEST_WEBHOOK,
    REPLAY_WEBHOOK_EVENT,
)
