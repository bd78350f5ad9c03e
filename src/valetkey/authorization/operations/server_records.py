"""Input and output types of keys, events, settings, invitations and the email queue."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.operations.operation import Anything, Line, Moment, Name
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, matching
from valetkey.kernel.jose.algorithm import Algorithm

_Text = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]
_Colour = Annotated[str, matching(r"^#[0-9a-fA-F]{6}$", "color.form")]


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
    `subject` is the object it is about, such as `webhook:wh_1`, null if only a user or a client.
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
    subject: str | None


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

    CSV is for spreadsheets: it begins with a byte order mark, `at` is ISO 8601 in UTC, and text
    that a spreadsheet would interpret as a formula is prefixed with an apostrophe.
    """

    format: Literal["ndjson", "csv"] = "ndjson"
    uid: Annotated[int, msgspec.Meta(ge=1, le=(1 << 53) - 1)] | None = None
    client_id: _Text = ""
    name: _Text = ""
    done_by: _Text = ""
    outcome: Literal["", "success", "failure"] = ""
    subject: _Text = ""
    since: Moment = 0
    until: Moment = 1 << 53


class BrandShown(msgspec.Struct, frozen=True):
    """Name, color, logo and links of the pages."""

    name: str
    accent: str
    logo_url: str
    logo_dark_url: str
    terms_url: str
    privacy_url: str


class BrandChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of the brand; null restores the value of the configuration file."""

    name: Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=60)] | (
        UnsetType | None
    ) = UNSET
    accent: _Colour | UnsetType | None = UNSET
    logo_url: Line | UnsetType | None = UNSET
    logo_dark_url: Line | UnsetType | None = UNSET
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


class NodeShown(msgspec.Struct, frozen=True):
    """A node: the machine, where it listens, and the time of its last heartbeat.

    One that is not `running` was not stopped, and has not been seen for two minutes.
    """

    name: str
    address: str
    version: str
    running: bool
    started_at: Moment
    seen_at: Moment


class BackupShown(msgspec.Struct, frozen=True):
    """The last backup that is known: by `valetkey database backup`, or recorded of another program.

    `bytes` is 0 if unknown. `restored_since`: the database was restored after it.
    """

    kind: Literal["files", "recorded"]
    bytes: int
    finished_at: Moment
    restored_since: bool


class OverviewShown(msgspec.Struct, frozen=True):
    """Current totals, the counts of the last 30 days, the nodes and the last backup."""

    people: AmountShown
    clients: AmountShown
    authorizations: AmountShown
    days: list[DayShown]
    nodes: list[NodeShown]
    backup: BackupShown | None
