"""Operations on webhooks, which receive chosen events, and their input and output."""

from collections.abc import Callable

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Command,
    Done,
    Moment,
    Operation,
    Option,
    QueryParameter,
    Result,
    Run,
    Services,
    change_of,
    changes_in,
    on,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.webhooks import rules as webhooks
from valetkey.authorization.webhooks.model import (
    OPERATOR,
    OWNER,
    Webhook,
    WebhookAttempt,
    WebhookChanged,
    WebhookCreated,
    WebhookDisabled,
    WebhookEnabled,
    WebhookMessageRequested,
    WebhookRemoved,
    WebhookSecretIssued,
    WebhookWanted,
)
from valetkey.authorization.webhooks.rules import (
    WebhookChanges,
    app_of,
    require_access,
)
from valetkey.authorization.webhooks.storage import Webhooks
from valetkey.kernel.replace import converted, replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked

WebhookChange = change_of(WebhookWanted, "WebhookChange", "Changes of a webhook.")


class WebhookShown(msgspec.Struct, frozen=True):
    """A webhook, without its secret; `failures` counts those since the last success.

    Callers without permission to change webhooks see only the host of the address. `client_id` is
    the app whose team owns the webhook.
    """

    webhook_id: str
    url: str
    events: list[str]
    description: str
    failures: int
    disabled_because: str
    disabled_at: Moment | None
    created_at: Moment
    failing_since: Moment | None = None
    client_id: str | None = None


class WebhookList(msgspec.Struct, frozen=True):
    """Webhooks, oldest first."""

    items: list[WebhookShown]
    next: str | None = None


class WebhookSecretShown(msgspec.Struct, frozen=True):
    """A new signing secret, shown once."""

    webhook_id: str
    secret: str


class AttemptShown(msgspec.Struct, frozen=True):
    """An attempt; `outcome` is the status of the response, or the check that failed."""

    event_id: str
    name: str
    at: Moment
    attempt: int
    outcome: str
    milliseconds: int
    excerpt: str


class AttemptList(msgspec.Struct, frozen=True):
    """The newest attempts."""

    items: list[AttemptShown]
    next: str | None = None


class MessageQueued(msgspec.Struct, frozen=True):
    """A message that was queued; `event_id` is its webhook-id."""

    changed: bool
    event_id: str


def webhook_shown(webhook: Webhook, *, whole: bool = True) -> WebhookShown:
    """Return the webhook as interfaces show it; not `whole` without path and query of its URL."""
    url = webhook.url if whole else masked(webhook.url)
    return converted(WebhookShown, webhook, webhook_id=webhook.id, url=url)


def webhook_tag(webhook: Webhook) -> str:
    """Return the entity tag of what is chosen about a webhook; attempts do not change it."""
    return tag_of(webhook.target)


def attempt_shown(attempt: WebhookAttempt, *, whole: bool = True) -> AttemptShown:
    """Return the attempt as interfaces show it; not `whole` without the response."""
    return converted(AttemptShown, attempt, excerpt=attempt.excerpt if whole else "")


_ALL = "/webhooks"
_ONE = "/webhooks/{webhook_id}"
_SHOWN = 100


def list_webhooks(tx: Transaction, call: Call) -> Result:
    """List the operator's webhooks or those of an app, oldest first."""
    client_id = call.query.get("client_id")
    listed_webhooks = (
        Webhooks.of(tx).of_client(client_id) if client_id else Webhooks.of(tx).of_operator()
    )
    whole = _may_change(tx, call)
    return Result(WebhookList([webhook_shown(webhook, whole=whole) for webhook in listed_webhooks]))


def read(tx: Transaction, call: Call) -> Result:
    """Return a webhook. Refused: not found."""
    webhook = _found(tx, call)
    shown = webhook_shown(webhook, whole=_may_change(tx, call))
    return Result(shown, etag=webhook_tag(webhook))


def create(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create a webhook and show its secret, once. Refused: too many."""
    Webhooks.of(tx).hold_all()
    require_access(tx, call.actor, changes=True)
    target = call.input(WebhookWanted)
    made = _changes(call).create(tx, target, call.entropy, call.now, app_of(call.actor))
    if isinstance(made, tuple):
        return made
    return Result(WebhookSecretShown(made.webhook.id, made.secret))


def change(tx: Transaction, call: Call, webhook: Webhook) -> Result | tuple[MetadataError, ...]:
    """Change a webhook, if it is still as the caller saw it."""
    call.preconditions.check(webhook_tag(webhook))
    target = replace(webhook.target, **changes_in(call.input(WebhookChange)))
    changed = _changes(call).change(tx, webhook, target, call.now)
    if isinstance(changed, tuple):
        return changed
    return Result(webhook_shown(changed), etag=webhook_tag(changed))


def issue_secret(tx: Transaction, call: Call, webhook: Webhook) -> WebhookSecretShown:
    """Give a webhook a new secret; the one before also signs for a day."""
    secret = _changes(call).rotate(tx, webhook, call.entropy, call.now)
    return WebhookSecretShown(webhook.id, secret)


def list_attempts(tx: Transaction, call: Call) -> Result:
    """List the newest attempts of a webhook. Refused: not found."""
    attempts, whole = Webhooks.of(tx).attempts(_found(tx, call).id, _SHOWN), _may_change(tx, call)
    return Result(AttemptList([attempt_shown(attempt, whole=whole) for attempt in attempts]))


def disable(tx: Transaction, call: Call, webhook: Webhook) -> bool:
    """Disable a webhook. False if it was disabled already."""
    because = OPERATOR if app_of(call.actor) is None else OWNER
    return webhooks.disable_webhook(tx, webhook, call.now, because)


def test(tx: Transaction, call: Call, webhook: Webhook) -> MessageQueued:
    """Queue a test message. Refused: disabled."""
    event_id = call.new_id("ev")
    return MessageQueued(webhooks.queue_test(tx, webhook, event_id, call.now), event_id)


def replay(tx: Transaction, call: Call, webhook: Webhook) -> MessageQueued:
    """Queue an earlier event again. Refused: not found; disabled."""
    event_id = call.named("event_id")
    return MessageQueued(webhooks.queue_again(tx, webhook, event_id, call.now), event_id)


def _on_webhook(function: Callable[[Transaction, Call, Webhook], object]) -> Run:
    def checked(tx: Transaction, call: Call) -> object:
        # First: the role is checked with the actor's own account locked.
        Webhooks.of(tx).hold_all()
        require_access(tx, call.actor, changes=True)
        return function(tx, call, _found(tx, call))

    return unchecked_write(checked)


def _found(tx: Transaction, call: Call) -> Webhook:
    webhook, app = Webhooks.of(tx).find(call.named("webhook_id")), app_of(call.actor)
    if webhook is None or (app is not None and webhook.client_id != app):
        raise webhooks.no_such_webhook()
    return webhook


def _may_change(tx: Transaction, call: Call) -> bool:
    return call.actor.permissions_in(tx).allow(Permission.SETTINGS)


def _changes(call: Call) -> WebhookChanges:
    return changes_of(call.services)


def changes_of(services: Services) -> WebhookChanges:
    """Return the service that creates and changes webhooks."""
    keyring, random = services.outbox.keyring, services.random
    return WebhookChanges(services.settings, keyring.sealer, random, services.kinds.keys())


LIST_WEBHOOKS = Operation(
    "list_webhooks",
    "GET",
    _ALL,
    Permission.READ,
    "List webhooks",
    reads(list_webhooks),
    output=WebhookList,
    returns_list=True,
    query=(
        QueryParameter(
            "client_id",
            "Webhooks of this app instead of the operator's.",
            {"type": "string", "minLength": 1, "maxLength": 200},
        ),
    ),
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
    input=WebhookWanted,
    output=WebhookSecretShown,
    status=201,
    error_statuses=(409,),
    event=WebhookCreated,
    requires_recent_sign_in=True,
    commands=(
        Command(
            options=(Option("url", argument=True),),
            example="https://example.com/hook --event user.disabled",
        ),
    ),
)

READ_WEBHOOK = Operation(
    "read_webhook",
    "GET",
    _ONE,
    Permission.READ,
    "Show a webhook",
    reads(read),
    output=WebhookShown,
    returns_etag=True,
)

CHANGE_WEBHOOK = Operation(
    "change_webhook",
    "PATCH",
    _ONE,
    Permission.SETTINGS,
    "Change address, events or description; waiting messages are sent to the new address",
    _on_webhook(change),
    input=WebhookChange,
    output=WebhookShown,
    requires_if_match=True,
    returns_etag=True,
    event=WebhookChanged,
    requires_recent_sign_in=True,
)

REMOVE_WEBHOOK = Operation(
    "delete_webhook",
    "DELETE",
    _ONE,
    Permission.SETTINGS,
    "Delete a webhook; waiting messages are not sent",
    _on_webhook(lambda tx, call, it: webhooks.remove_webhook(tx, it, call.now)),
    output=Done,
    event=WebhookRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete webhook"),
            translatable(
                "Waiting messages are not sent. The delivery log is deleted. This cannot be undone."
            ),
            "",
            shown_for=on(Webhook),
            danger=True,
            irreversible=True,
        ),
    ),
    commands=(
        Command(
            "webhook remove",
            question="Delete this webhook? Queued events are not sent.",
            done="The webhook is deleted.",
        ),
    ),
)

ENABLE_WEBHOOK = Operation(
    "enable_webhook",
    "POST",
    f"{_ONE}/enable",
    Permission.SETTINGS,
    "Enable a webhook; waiting messages are sent",
    _on_webhook(lambda tx, call, it: webhooks.enable_webhook(tx, it, call.now)),
    output=Done,
    event=WebhookEnabled,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "enable",
            translatable("Enable webhook"),
            translatable("Waiting messages younger than three days are sent."),
            translatable("The webhook is enabled."),
            shown_for=on(Webhook, lambda it: it.disabled_at is not None),
        ),
    ),
    commands=(Command(unchanged="The webhook was enabled already."),),
)

DISABLE_WEBHOOK = Operation(
    "disable_webhook",
    "POST",
    f"{_ONE}/disable",
    Permission.SETTINGS,
    "Disable a webhook; events are not sent to it until it is enabled",
    _on_webhook(disable),
    output=Done,
    event=WebhookDisabled,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "disable",
            translatable("Disable webhook"),
            translatable("Events in the meantime are not sent, not even later."),
            translatable("The webhook is disabled."),
            shown_for=on(Webhook, lambda it: it.disabled_at is None),
            danger=True,
        ),
    ),
    commands=(Command(confirms=False, unchanged="The webhook was disabled already."),),
)

ISSUE_WEBHOOK_SECRET = Operation(
    "create_webhook_secret",
    "POST",
    f"{_ONE}/secret",
    Permission.SETTINGS,
    "Issue a new signing secret; the previous one also signs for a day",
    _on_webhook(issue_secret),
    output=WebhookSecretShown,
    event=WebhookSecretIssued,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "secret",
            translatable("Rotate secret"),
            translatable("It is shown once. For a day, messages are signed with both secrets."),
            "",
            shown_for=on(Webhook),
        ),
    ),
    commands=(Command("webhook secret"),),
)

LIST_WEBHOOK_ATTEMPTS = Operation(
    "list_webhook_attempts",
    "GET",
    f"{_ONE}/attempts",
    Permission.READ,
    "List the newest hundred delivery attempts of a webhook",
    reads(list_attempts),
    output=AttemptList,
    returns_list=True,
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
    _on_webhook(test),
    output=MessageQueued,
    error_statuses=(409,),
    event=WebhookMessageRequested,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "test",
            translatable("Send a test message"),
            translatable("Its type is webhook.test. The delivery log shows the response."),
            translatable("A test message is queued."),
            shown_for=on(Webhook, lambda it: it.disabled_at is None),
        ),
    ),
    commands=(Command(done="A test message is queued."),),
)

REPLAY_WEBHOOK_EVENT = Operation(
    "replay_webhook_event",
    "POST",
    f"{_ONE}/events/{{event_id}}",
    Permission.SETTINGS,
    "Send an event again, or an event from before the webhook was created",
    _on_webhook(replay),
    output=MessageQueued,
    error_statuses=(409,),
    event=WebhookMessageRequested,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "replay",
            translatable("Send again"),
            translatable("It is sent with the same webhook-id, after the waiting messages."),
            translatable("The event is queued."),
            carries=("event", "event_id"),
        ),
    ),
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
    READ_WEBHOOK,
    CHANGE_WEBHOOK,
    TEST_WEBHOOK,
    ISSUE_WEBHOOK_SECRET,
    ENABLE_WEBHOOK,
    DISABLE_WEBHOOK,
    REMOVE_WEBHOOK,
    LIST_WEBHOOK_ATTEMPTS,
    REPLAY_WEBHOOK_EVENT,
)
