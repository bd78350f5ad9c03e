"""Webhooks: where chosen events are sent, what waits for them, and the log of attempts."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from msgspec import Meta, Struct

from valetkey.authorization.model.email import MailKind
from valetkey.authorization.model.event.event import BySystem, Event
from valetkey.authorization.model.event.grants import (
    AccessTokenRevoked,
    ClientDisabled,
    ClientEnabled,
    ClientSecretEnded,
    ClientSecretIssued,
    ConsentGiven,
    ConsentWithdrawn,
    GrantRevoked,
)
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, matching
from valetkey.authorization.storage.outbox import ReceiverMessage
from valetkey.kernel.moment import Instant, days, seconds
from valetkey.kernel.text import translatable

LEASE = seconds(30)
"""How long one process may hold a message: six times the longest attempt."""

LIFETIME = days(3)
"""How long delivery of a message is tried; then its webhook is disabled."""

OVERLAP = days(1)
"""How long messages are also signed with the secret before the last rotation."""

TEST = "webhook.test"
"""The type of a test message, which is no event."""

EVENT_EXPIRED = "event_expired"
"""The outcome for an event that was deleted before it was delivered: it cannot be sent again."""

ADDRESS = "/admin/webhooks"
"""The path of the list in the console."""

MOST_WEBHOOKS = 20
MOST_EVENTS = 200

MOST_WEBHOOKS_OF_APP = 5

MOST_WAITING = 200_000
"""Maximum number of messages queued for one webhook; beyond that it is disabled."""

MOST_WAITING_OF_APP = 10_000

MOST_ATTEMPTS = 10_000
"""Maximum number of attempts in the log of one webhook, newest first."""

OPERATOR = "operator"
OWNER = "owner"
UNDELIVERED = "undelivered"
GONE = "gone"
FULL = "full"
"""Why a webhook is disabled: the first two values are decisions of users, the others faults."""

APP_EVENTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        ConsentGiven.name: ("scope", "apis"),
        ConsentWithdrawn.name: (),
        GrantRevoked.name: (),
        AccessTokenRevoked.name: ("token_id", "audience"),
        ClientSecretIssued.name: ("secret_id",),
        ClientSecretEnded.name: ("secret_id",),
        ClientDisabled.name: (),
        ClientEnabled.name: (),
    }
)
"""Events that webhooks of apps receive, and their fields beyond `client_id` and `sub`.

Nothing that an app does not know of its users anyway: no uid, no actor and no reason, which could
be a changed password.
"""


class WebhookEmail(MailKind):
    """The messages about webhooks."""

    DISABLED = "webhook_disabled", translatable("Webhook disabled"), "webhooks/"


class WebhookWanted(Struct, frozen=True, forbid_unknown_fields=True):
    """A webhook to be created."""

    url: Annotated[
        str,
        matching(r"^[!-~]{1,500}$", "url.form"),
        Meta(description="The https address of the receiver."),
    ]
    events: Annotated[
        list[Annotated[str, matching(r"^[a-z_.]{1,60}$", "event.form")]],
        Meta(max_length=MOST_EVENTS, description="Names of events; none for every event."),
    ] = []
    description: Annotated[
        str, Meta(pattern=NO_CONTROLS, max_length=200, description="What it is for.")
    ] = ""


class Webhook(Struct, frozen=True):
    """An address and the names of the events that are sent there; none means every event.

    `sealed` are its signing secret and the one before, which also signs until `previous_until`.
    `failures` counts failed attempts since the last successful one, the first of them at
    `failing_since`; there are none before `retry_at`. More than `most_waiting` messages disable it.
    `client_id` is the app whose team owns it; None for the operator's.
    """

    id: str
    url: str
    description: str
    events: tuple[str, ...]
    sealed: str
    previous_sealed: str | None
    previous_until: Instant | None
    failures: int
    retry_at: Instant
    disabled_because: str
    disabled_at: Instant | None
    created_at: Instant
    failing_since: Instant | None = None
    most_waiting: int = MOST_WAITING
    client_id: str | None = None

    @property
    def target(self) -> WebhookWanted:
        """What is chosen about it."""
        chosen: dict[str, Any] = {
            name: getattr(self, name) for name in WebhookWanted.__struct_fields__
        }
        chosen["events"] = list(self.events)
        return WebhookWanted(**chosen)

    def changed_fields(self, changed: "Webhook") -> tuple[str, ...]:
        """Return the names of what was chosen differently."""
        chosen = set(WebhookWanted.__struct_fields__)
        return tuple(
            name
            for name in self.__struct_fields__
            if name in chosen and getattr(self, name) != getattr(changed, name)
        )

    @property
    def is_fault(self) -> bool:
        """Whether the webhook was disabled because of its receiver."""
        return self.disabled_because not in {"", OPERATOR, OWNER}


class WebhookMessage(ReceiverMessage, frozen=True):
    """An event that waits for one webhook. Messages about one subject are sent in order.

    `event_id` is the webhook-id header, the same at every attempt.
    """


class WebhookAttempt(Struct, frozen=True):
    """A line of the log. `outcome` is a status such as `200`, or the check that failed."""

    id: str
    webhook_id: str
    event_id: str
    name: str
    at: Instant
    attempt: int
    outcome: str
    milliseconds: int
    excerpt: str


def secret_place(webhook_id: str) -> str:
    """Return the context that a webhook's secrets are sealed for."""
    return f"webhooks.sealed:{webhook_id}"


class WebhookCreated(Event, frozen=True):
    """A webhook was created for these events; none means every event."""

    subject = "webhook:{webhook_id}"
    sentence = translatable("The webhook %(webhook_id)s was created.")

    webhook_id: str
    events: tuple[str, ...]
    client_id: str | None = None


class WebhookChanged(Event, frozen=True):
    """Address, events or description of a webhook were changed."""

    subject = "webhook:{webhook_id}"
    sentence = translatable("The webhook %(webhook_id)s was changed: %(fields)s.")

    webhook_id: str
    fields: tuple[str, ...]
    client_id: str | None = None


class WebhookRemoved(Event, frozen=True):
    """A webhook was deleted; what waited for it is not sent."""

    subject = "webhook:{webhook_id}"
    sentence = translatable("The webhook %(webhook_id)s was deleted.")

    webhook_id: str
    client_id: str | None = None


class WebhookEnabled(Event, frozen=True):
    """A webhook was enabled again."""

    subject = "webhook:{webhook_id}"
    sentence = translatable("The webhook %(webhook_id)s was enabled.")

    webhook_id: str
    client_id: str | None = None


class WebhookDisabled(BySystem, frozen=True):
    """A webhook was disabled: by `operator` or `owner`, or `undelivered`, `gone`, `full`."""

    subject = "webhook:{webhook_id}"
    is_alarming = True
    sentence = translatable("The webhook %(webhook_id)s was disabled: %(because)s.")
    reasons = {  # noqa: RUF012 - a ClassVar, as the base class declares
        "full": translatable("too many messages waited"),
        "gone": translatable("the receiver answered 410 Gone"),
        "operator": translatable("an administrator decided it"),
        "owner": translatable("its owner decided it"),
        "undelivered": translatable("messages could not be delivered"),
    }

    webhook_id: str
    because: str
    client_id: str | None = None


class WebhookSecretIssued(Event, frozen=True):
    """A webhook got a new signing secret; the one before also signs for another day."""

    subject = "webhook:{webhook_id}"
    sentence = translatable("The webhook %(webhook_id)s got a new signing secret.")

    webhook_id: str
    client_id: str | None = None


class WebhookMessageRequested(Event, frozen=True):
    """An operator had a test message or an earlier event sent to a webhook."""

    subject = "webhook:{webhook_id}"
    sentence = translatable(
        "A test message or an earlier event was sent to the webhook %(webhook_id)s."
    )

    webhook_id: str
    event_id: str
    client_id: str | None = None


EVENTS = (
    WebhookCreated,
    WebhookChanged,
    WebhookRemoved,
    WebhookEnabled,
    WebhookDisabled,
    WebhookSecretIssued,
    WebhookMessageRequested,
)
