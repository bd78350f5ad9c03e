"""Shared Signals: streams, the security events of CAEP and RISC, and what happened to streams."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.model.event.accounts import (
    AuthenticatorAdded,
    AuthenticatorRemoved,
    FactorsRemoved,
    GroupMemberAdded,
    GroupMemberRemoved,
    PasskeyAdded,
    PasskeyRemoved,
    PasswordChanged,
    PasswordRemoved,
    SessionEnded,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserRemoved,
)
from valetkey.authorization.model.event.event import ByClient, Event
from valetkey.authorization.storage.outbox import ReceiverMessage
from valetkey.kernel.moment import Instant, days, seconds
from valetkey.kernel.text import translatable

LEASE = seconds(30)
"""How long one process may hold a token: six times the longest attempt."""

LIFETIME = days(7)
"""How long a token waits for its receiver; then it is dropped."""

MOST_REJECTIONS = 5
"""Attempts after which a token is dropped that its receiver calls invalid (RFC 8935)."""

MOST_STREAMS = 100
MOST_STREAMS_OF_CLIENT = 5
MOST_EXCLUDED = 100_000
"""Maximum number of users that one receiver removed from its stream."""

MOST_WAITING = 10_000
"""Tokens that wait for one receiver, also while its stream is paused; the oldest are dropped."""

MOST_FAILURES = 1_000
"""Maximum number of failed deliveries in the log of one stream, newest first."""

VERIFY_EVERY = seconds(30)
"""The shortest time between two verifications that a receiver may request."""

CONTROL = "stream"
"""The subject of messages about the stream itself, which do not wait for others."""

ADDRESS = "/admin/signal-streams"
"""The path of the list in the console."""

PUSH = "urn:ietf:rfc:8935"
POLL = "urn:ietf:rfc:8936"
LEGACY_PUSH = "https://schemas.openid.net/secevent/risc/delivery-method/push"
"""Push as the drafts before SSF 1.0 name it."""

MANAGE = "ssf.manage"
READ = "ssf.read"
SCOPES: Mapping[str, str] = MappingProxyType(
    {
        READ: translatable("read security events about the users of this server"),
        MANAGE: translatable("manage who receives security events about the users of this server"),
    }
)
"""The scopes of the CAEP interoperability profile (section 2.7.3) and their descriptions."""

_CAEP = "https://schemas.openid.net/secevent/caep/event-type/"
_RISC = "https://schemas.openid.net/secevent/risc/event-type/"
_SSF = "https://schemas.openid.net/secevent/ssf/event-type/"

SESSION_REVOKED = f"{_CAEP}session-revoked"
CREDENTIAL_CHANGE = f"{_CAEP}credential-change"
TOKEN_CLAIMS_CHANGE = f"{_CAEP}token-claims-change"
ACCOUNT_DISABLED = f"{_RISC}account-disabled"
ACCOUNT_ENABLED = f"{_RISC}account-enabled"
ACCOUNT_PURGED = f"{_RISC}account-purged"
VERIFICATION = f"{_SSF}verification"
STREAM_UPDATED = f"{_SSF}stream-updated"

SUPPORTED = (
    SESSION_REVOKED,
    CREDENTIAL_CHANGE,
    TOKEN_CLAIMS_CHANGE,
    ACCOUNT_DISABLED,
    ACCOUNT_ENABLED,
    ACCOUNT_PURGED,
)
"""The event types that receivers may request."""

_CREDENTIALS: Mapping[type[Event], tuple[tuple[str, str], ...]] = MappingProxyType(
    {
        PasswordChanged: (("password", "update"),),
        PasswordRemoved: (("password", "delete"),),
        # Whether a passkey is part of the device is not recorded.
        PasskeyAdded: (("fido2-roaming", "create"),),
        PasskeyRemoved: (("fido2-roaming", "delete"),),
        AuthenticatorAdded: (("app", "create"),),
        AuthenticatorRemoved: (("app", "delete"),),
        FactorsRemoved: (("app", "revoke"), ("fido2-roaming", "revoke")),
    }
)
_ACCOUNTS: Mapping[type[Event], str] = MappingProxyType(
    {
        UserDisabled: ACCOUNT_DISABLED,
        UserEnabled: ACCOUNT_ENABLED,
        UserRemoved: ACCOUNT_PURGED,
    }
)
_CLAIMS = (UserChanged, GroupMemberAdded, GroupMemberRemoved)

_SOURCES: tuple[type[Event], ...] = (SessionEnded, *_CREDENTIALS, *_ACCOUNTS, *_CLAIMS)

HEARD = frozenset(source.name for source in _SOURCES)
"""Names of the events of this server that become security events."""

GROUPS_CHANGED = ("groups",)


class SecurityEvent(Struct, frozen=True):
    """A security event of an event: its type and members; `claims` are the names that changed."""

    type: str
    members: Mapping[str, object] = MappingProxyType({})
    claims: tuple[str, ...] = ()
    session_id: str = ""


def security_events(event: Event) -> tuple[SecurityEvent, ...]:
    """Return the security events that an event of this server is; none for most."""
    if isinstance(event, SessionEnded):
        return (SecurityEvent(SESSION_REVOKED, session_id=event.session_id),)
    if isinstance(event, UserChanged):
        return (SecurityEvent(TOKEN_CLAIMS_CHANGE, claims=_claims_of(event.fields)),)
    if isinstance(event, GroupMemberAdded | GroupMemberRemoved):
        return (SecurityEvent(TOKEN_CLAIMS_CHANGE, claims=GROUPS_CHANGED),)
    if type(event) in _ACCOUNTS:
        return (SecurityEvent(_ACCOUNTS[type(event)]),)
    return tuple(
        SecurityEvent(
            CREDENTIAL_CHANGE, MappingProxyType({"credential_type": kind, "change_type": change})
        )
        for kind, change in _CREDENTIALS.get(type(event), ())
    )


def _claims_of(fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return the claims in which changed fields of a user are shown."""
    names = {"username": "preferred_username", "email_verified_at": "email_verified"}
    return tuple(dict.fromkeys(names.get(field, field) for field in fields))


class StreamStatus(StrEnum):
    """The status of a stream (SSF section 8.1.2)."""

    ENABLED = "enabled"
    PAUSED = "paused"
    DISABLED = "disabled"


class StreamProfile(StrEnum):
    """How tokens are written: SSF 1.0, or the draft of 2021 that Apple Business Manager reads."""

    SSF = "ssf"
    SSE = "sse"


class SubjectFormat(StrEnum):
    """The subject identifier of users (RFC 9493)."""

    ISS_SUB = "iss_sub"
    EMAIL = "email"
    OPAQUE = "opaque"


class SignalStream(Struct, frozen=True):
    """A stream of security events to one receiver, which is a client.

    `audience` is the `aud` of its tokens, `events` the types that were requested, known or not.
    `sealed` is the value of the Authorization header to push with. The receiver cannot enable a
    `locked` stream, whose status an operator chose. `dropped` counts tokens that
    the receiver never took, `failures` failed attempts since the last successful one, the first of
    them at `failing_since`; there are none before `retry_at`. No verification is accepted from the
    receiver before `verify_after`.
    """

    id: str
    client_id: str
    profile: StreamProfile
    audience: tuple[str, ...]
    method: str
    url: str
    sealed: str | None
    events: tuple[str, ...]
    description: str
    subject_format: SubjectFormat
    status: StreamStatus
    reason: str
    locked: bool
    dropped: int
    failures: int
    failing_since: Instant | None
    retry_at: Instant
    last_delivery_at: Instant | None
    verify_after: Instant
    created_at: Instant

    @property
    def delivered(self) -> tuple[str, ...]:
        """The event types that are sent: those requested that this server supports."""
        return tuple(event_type for event_type in SUPPORTED if event_type in self.events)

    @property
    def is_push(self) -> bool:
        """Whether tokens are pushed; others are polled."""
        return self.method != POLL


class SignalMessage(ReceiverMessage, frozen=True):
    """A token that waits for one receiver: the receiver is its stream, `kind` the event type."""

    facts: str


class TokenFacts(Struct, frozen=True, omit_defaults=True):
    """What a token says, without what depends on its receiver; stored when it happened.

    `uid` is the user, "" for an event about the stream.
    """

    event: Mapping[str, object]
    uid: int | None = None
    email: str = ""
    session_id: str = ""


class SignalFailure(Struct, frozen=True):
    """A delivery that failed. `outcome` is a status, an error code of RFC 8935, or a check."""

    id: str
    stream_id: str
    token_id: str
    type: str
    at: Instant
    attempt: int
    outcome: str
    description: str
    dropped: bool


def secret_place(stream_id: str) -> str:
    """Return the context that a stream's Authorization header is sealed for."""
    return f"signal_streams.sealed:{stream_id}"


class SignalStreamCreated(ByClient, frozen=True):
    """A stream of security events to a client was created."""

    subject = "stream:{stream_id}"
    sentence = translatable("A stream of security events to the app %(client_id)s was created.")

    stream_id: str
    client_id: str
    events: tuple[str, ...]


class SignalStreamChanged(ByClient, frozen=True):
    """The configuration of a stream of security events was changed."""

    subject = "stream:{stream_id}"
    sentence = translatable(
        "The stream of security events to the app %(client_id)s was changed: %(fields)s."
    )

    stream_id: str
    client_id: str
    fields: tuple[str, ...]


class SignalStreamUpdated(ByClient, frozen=True):
    """The status of a stream of security events was changed."""

    subject = "stream:{stream_id}"
    sentence = translatable(
        "The stream of security events to the app %(client_id)s is %(status)s now."
    )

    stream_id: str
    client_id: str
    status: str


class SignalStreamRemoved(ByClient, frozen=True):
    """A stream of security events was deleted; what waited for it is not sent."""

    subject = "stream:{stream_id}"
    sentence = translatable("The stream of security events to the app %(client_id)s was deleted.")

    stream_id: str
    client_id: str


class SignalStreamVerified(ByClient, frozen=True):
    """A verification event was requested for a stream of security events."""

    subject = "stream:{stream_id}"
    sentence = translatable(
        "A verification event was requested for the stream of security events to the app "
        "%(client_id)s."
    )

    stream_id: str
    client_id: str


EVENTS = (
    SignalStreamCreated,
    SignalStreamChanged,
    SignalStreamUpdated,
    SignalStreamRemoved,
    SignalStreamVerified,
)
