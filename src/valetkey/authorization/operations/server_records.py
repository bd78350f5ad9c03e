"""Input and output types of keys, events, settings, invitations and the email queue."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.webhooks import WebhookTarget
from valetkey.authorization.model.webhook import MOST_EVENTS, Webhook, WebhookAttempt
from valetkey.authorization.operations.records import Anything, Line, Moment, Name, tag_of
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.kernel.jose.algorithm import Algorithm

_Text = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]
_Colour = Annotated[str, msgspec.Meta(pattern=r"^#[0-9a-fA-F]{6}$")]


class KeyShown(msgspec.Struct, frozen=True):
    """A signing key, without the key; `next` is published and signs nothing yet."""

    kid: str
    algorithm: str
    state: Literal["next", "current", "retiring", "gone"]
    created_at: Moment
    activates_at: Moment
    retires_at: Moment | None
    removed_at: Moment | None


class Keys(msgspec.Struct, frozen=True):
    """Every published key."""

    items: list[KeyShown]


class RotationWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The keys to rotate, all if none is named, and whether to skip the time of publication."""

    algorithm: Algorithm | None = None
    at_once: bool = False


class EventShown(msgspec.Struct, frozen=True):
    """An event; `done_by` is its actor, such as `user 17` or `cli root`.

    `ip_address` and `browser` are those of its request, "" if unknown, not recorded or erased.
    """

    id: str
    at: Moment
    name: str
    client_id: str | None
    uid: int | None
    grant_id: str | None
    done_by: str
    data: dict[str, Anything]
    ip_address: str
    browser: str


class EventList(msgspec.Struct, frozen=True):
    """Events, newest first."""

    items: list[EventShown]
    next: str | None


class RefusalShown(msgspec.Struct, frozen=True):
    """Why a request was refused: the check, what it expected and what it received. No secrets.

    `client_id` is the client that the request named, null for none; `request_id` finds the request
    in the log.
    """

    reference: str
    at: Moment
    endpoint: str
    code: str
    check: str
    description: str
    expected: str
    received: str
    client_id: str | None
    request_id: str
    expires_at: Moment


class CopyWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Input for an export: the filter, at most 100,000 events, newest first, and the format.

    In CSV, text that a spreadsheet would interpret as a formula is prefixed with an apostrophe.
    """

    format: Literal["ndjson", "csv"] = "ndjson"
    uid: Annotated[int, msgspec.Meta(ge=1, le=(1 << 53) - 1)] | None = None
    client_id: _Text = ""
    name: _Text = ""
    done_by: _Text = ""
    since: Moment = 0
    until: Moment = 1 << 53


class BrandShown(msgspec.Struct, frozen=True):
    """Name, color, logo and links of the pages."""

    name: str
    accent: str
    logo_url: str
    terms_url: str
    privacy_url: str


class BrandChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the brand; null restores the value of the configuration file."""

    name: Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=60)] | (
        UnsetType | None
    ) = UNSET
    accent: _Colour | UnsetType | None = UNSET
    logo_url: Line | UnsetType | None = UNSET
    terms_url: Line | UnsetType | None = UNSET
    privacy_url: Line | UnsetType | None = UNSET


class RegistrationShown(msgspec.Struct, frozen=True):
    """The registration policy: dynamic registration, and who may register apps in the portal."""

    mode: Literal["off", "token", "open"]
    people: str
    unused_lifetime: int


class InvitationShown(msgspec.Struct, frozen=True):
    """A token for apps to register themselves, without the token."""

    id: str
    note: str
    uses_left: int
    created_at: Moment
    expires_at: Moment


class Invitations(msgspec.Struct, frozen=True):
    """The usable invitations."""

    items: list[InvitationShown]


class InvitationWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new registration token."""

    note: (
        Annotated[Name, msgspec.Meta(description="A note to identify the invitation.")]
        | Literal[""]
    ) = ""
    uses: Annotated[
        int, msgspec.Meta(ge=1, le=1_000_000, description="How many applications it registers.")
    ] = 1
    lifetime: Annotated[int, msgspec.Meta(ge=1, le=315_360_000)] = 604_800


class InvitationMade(msgspec.Struct, frozen=True):
    """A new registration token, shown once."""

    token: str
    record: InvitationShown


class EmailQueueState(msgspec.Struct, frozen=True):
    """The state of the email queue."""

    transport: Literal["smtp", "mailbox", "off"]
    waiting: int
    sent: list[EventShown]
    given_up: list[EventShown]


class TestSent(msgspec.Struct, frozen=True):
    """The recipient of a queued test email; none if mail is off or the limit is reached."""

    queued: bool
    to: str


class AmountShown(msgspec.Struct, frozen=True):
    """A total; `more` if counting stopped at a limit."""

    count: int
    more: bool


class DayShown(msgspec.Struct, frozen=True):
    """The counts of one day, a number of days since 1970-01-01.

    Tokens by grant type, refused requests by error code.
    """

    day: int
    tokens: dict[str, int]
    errors: dict[str, int]
    people: int
    sign_ins: int
    failed_sign_ins: int


class OverviewShown(msgspec.Struct, frozen=True):
    """Current totals, and the counts of the last 30 days."""

    people: AmountShown
    clients: AmountShown
    authorizations: AmountShown
    days: list[DayShown]


_Url = Annotated[
    str,
    msgspec.Meta(pattern=r"^[!-~]{1,500}$", description="The https address of the receiver."),
]
_Description = Annotated[
    str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200, description="What it is for.")
]
_EventNames = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=r"^[a-z_.]{1,60}$")]],
    msgspec.Meta(max_length=MOST_EVENTS, description="Names of events; none for every event."),
]


class WebhookWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A webhook to be created."""

    url: _Url
    events: _EventNames = []
    description: _Description = ""


class WebhookChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a webhook."""

    url: _Url | UnsetType = UNSET
    events: _EventNames | UnsetType = UNSET
    description: _Description | UnsetType = UNSET


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
    return WebhookShown(
        webhook.id,
        webhook.url if whole else masked(webhook.url),
        list(webhook.events),
        webhook.description,
        webhook.failures,
        webhook.disabled_because,
        webhook.disabled_at,
        webhook.created_at,
        webhook.failing_since,
        webhook.client_id,
    )


def masked(url: str) -> str:
    """Return an address without its path and query, which may hold credentials."""
    parts = urlsplit(url)
    bare = f"{parts.scheme}://{parts.netloc}/"
    return bare if url in {bare, bare[:-1]} else f"{bare}…"


def target_of(wanted: WebhookWanted) -> WebhookTarget:
    """Return the target that this input describes."""
    return WebhookTarget(wanted.url, wanted.events, wanted.description)


def webhook_tag(webhook: Webhook) -> str:
    """Return the entity tag of what is chosen about a webhook; attempts do not change it."""
    return tag_of(WebhookWanted(webhook.url, list(webhook.events), webhook.description))


def changed_target(webhook: Webhook, change: WebhookChange) -> WebhookTarget:
    """Return the target of a webhook after a change; omitted members are kept."""
    return WebhookTarget(
        webhook.url if change.url is UNSET else change.url,
        webhook.events if change.events is UNSET else change.events,
        webhook.description if change.description is UNSET else change.description,
    )


def attempt_shown(attempt: WebhookAttempt, *, whole: bool = True) -> AttemptShown:
    """Return the attempt as interfaces show it; not `whole` without the response."""
    return AttemptShown(
        attempt.event_id,
        attempt.name,
        attempt.at,
        attempt.attempt,
        attempt.outcome,
        attempt.milliseconds,
        attempt.excerpt if whole else "",
    )
