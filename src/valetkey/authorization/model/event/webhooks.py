"""Events of webhooks; `client_id` is the app whose team owns the webhook."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import BySystem, Event


@dataclass(frozen=True, slots=True)
class WebhookCreated(Event):
    """A webhook was created for these events; none means every event."""

    webhook_id: str
    events: tuple[str, ...]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookChanged(Event):
    """Address, events or description of a webhook were changed."""

    webhook_id: str
    fields: tuple[str, ...]
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookRemoved(Event):
    """A webhook was deleted; what waited for it is not sent."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookEnabled(Event):
    """A webhook was enabled again."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookDisabled(BySystem):
    """A webhook was disabled: by `operator` or `owner`, or `undelivered`, `gone`, `full`."""

    webhook_id: str
    because: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookSecretIssued(Event):
    """A webhook got a new signing secret; the one before also signs for another day."""

    webhook_id: str
    client_id: str | None = None


@dataclass(frozen=True, slots=True)
class WebhookMessageRequested(Event):
    """An operator had a test message or an earlier event sent to a webhook."""

    webhook_id: str
    event_id: str
    client_id: str | None = None
