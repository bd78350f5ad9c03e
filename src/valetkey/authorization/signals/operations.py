"""Operations on streams of security events, and their input and output."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.clients import Faults
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.grants import ClientRegistered
from valetkey.authorization.operations.clients import registrar
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Command,
    Done,
    InvalidInput,
    Moment,
    Operation,
    Option,
    Result,
    Run,
    Services,
    on,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.protocol.claims import OFFLINE_ACCESS, OPENID
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, input_fault, matching
from valetkey.authorization.signals.model import (
    POLL,
    PUSH,
    SCOPES,
    SUPPORTED,
    SignalStream,
    SignalStreamChanged,
    SignalStreamCreated,
    SignalStreamRemoved,
    SignalStreamUpdated,
    SignalStreamVerified,
    StreamStatus,
    SubjectFormat,
)
from valetkey.authorization.signals.rules import streams as rules
from valetkey.authorization.signals.rules.streams import (
    InvalidStream,
    StreamChanges,
    StreamChoices,
    StreamDelivery,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import converted, replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked

SHORT = {event_type.rpartition("/")[2]: event_type for event_type in SUPPORTED}
"""The event types by the last part of their URI."""

_Url = Annotated[
    str,
    matching(r"^[!-~]{0,500}$", "url.form"),
    msgspec.Meta(
        description="The https address that tokens are pushed to; empty to have them polled.",
    ),
]
_Description = Annotated[
    str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200, description="What it is for.")
]
_Events = Annotated[
    list[
        Annotated[
            str, matching("^(" + "|".join(SHORT) + ")$", "choice.form", names=", ".join(SHORT))
        ]
    ],
    msgspec.Meta(
        max_length=len(SUPPORTED),
        description=f"Event types, none for all: {', '.join(SHORT)}.",
    ),
]
_Header = Annotated[
    str,
    matching(r"^([!-~]([ -~]*[!-~])?)?$", "header.form"),
    msgspec.Meta(
        max_length=2_000,
        description="The Authorization header of pushes: a scheme and a secret.",
    ),
]
_Format = Annotated[SubjectFormat, msgspec.Meta(description="How users are named.")]


class SignalStreamWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A stream to be created."""

    client_id: Annotated[
        str, msgspec.Meta(min_length=1, max_length=500, description="The receiver.")
    ]
    url: _Url = ""
    events: _Events = []
    description: _Description = ""
    authorization_header: _Header = ""
    subject_format: _Format = SubjectFormat.ISS_SUB


class SignalStreamChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a stream."""

    url: _Url | UnsetType = UNSET
    events: _Events | UnsetType = UNSET
    description: _Description | UnsetType = UNSET
    authorization_header: _Header | UnsetType = UNSET
    subject_format: _Format | UnsetType = UNSET


class SignalStreamShown(msgspec.Struct, frozen=True):
    """A stream, without its secret; `failures` counts those since the last success.

    `events` are the types that are sent, `dropped` counts tokens that the receiver never took.
    Callers without permission to change streams do not see the path of the address.
    """

    stream_id: str
    client_id: str
    status: str
    reason: str
    method: str
    url: str
    events: list[str]
    description: str
    subject_format: str
    waiting: int
    dropped: int
    failures: int
    failing_since: Moment | None
    last_delivery_at: Moment | None
    created_at: Moment


class SignalStreamList(msgspec.Struct, frozen=True):
    """Streams, oldest first."""

    items: list[SignalStreamShown]
    next: str | None = None


class SignalFailureShown(msgspec.Struct, frozen=True):
    """A failed delivery; `outcome` is a status, the receiver's error, or the check that failed."""

    token_id: str
    type: str
    at: Moment
    attempt: int
    outcome: str
    description: str
    dropped: bool


class SignalFailureList(msgspec.Struct, frozen=True):
    """The newest failures."""

    items: list[SignalFailureShown]
    next: str | None = None


class SignalReceiverShown(msgspec.Struct, frozen=True):
    """What to enter at the receiver; the secret is shown once."""

    client_id: str
    client_secret: str
    ssf_configuration_url: str
    openid_configuration_url: str


_ALL = "/signal-streams"
_ONE = "/signal-streams/{stream_id}"
_SHOWN = 100

APPLE_NAME = "Apple Business Manager"
APPLE_CALLBACK = "https://gsa-ws.apple.com/grandslam/GsService2/acs"
"""The redirect URI that Apple documents for custom identity providers."""


def signal_stream_shown(
    stream: SignalStream, waiting: int, *, whole: bool = True
) -> SignalStreamShown:
    """Return the stream as interfaces show it."""
    return converted(
        SignalStreamShown,
        stream,
        stream_id=stream.id,
        method="push" if stream.is_push else "poll",
        url=stream.url if whole else masked(stream.url),
        events=short_names(stream),
        waiting=waiting,
    )


def signal_stream_tag(stream: SignalStream) -> str:
    """Return the entity tag of what is chosen about a stream; deliveries do not change it."""
    chosen = (stream.url, stream.events, stream.description, stream.subject_format.value)
    return tag_of((*chosen, stream.sealed or ""))


def changes_of(services: Services) -> StreamChanges:
    """Return the service that creates and changes streams."""
    return StreamChanges(services.settings.fetch.allow, services.outbox.keyring.sealer)


def list_streams(tx: Transaction, call: Call) -> Result:
    """List all streams, oldest first."""
    whole = _may_change(tx, call)
    return Result(
        SignalStreamList([_shown(tx, stream, whole=whole) for stream in SignalStreams.of(tx).all()])
    )


def read_stream(tx: Transaction, call: Call) -> Result:
    """Return a stream. Refused: not found."""
    stream = found_stream(tx, call.named("stream_id"))
    return Result(_shown(tx, stream, whole=_may_change(tx, call)), etag=signal_stream_tag(stream))


def create_stream(tx: Transaction, call: Call) -> Result:
    """Create a stream. Refused: invalid; too many."""
    SignalStreams.of(tx).hold_all()
    require(tx, call.actor, call.operation.permission)
    body = call.input(SignalStreamWanted)
    client = _client(tx, body.client_id)
    choices = StreamChoices(
        _delivery(body.url, body.authorization_header),
        uris_of(body.events),
        body.description,
        body.subject_format,
    )
    with _fault_at_field():
        made = changes_of(call.services).create(tx, client, choices, call.entropy, call.now)
    return Result(_shown(tx, made, whole=True))


def change_stream(tx: Transaction, call: Call, stream: SignalStream) -> Result:
    """Change a stream, if it is still as the caller saw it."""
    call.preconditions.check(signal_stream_tag(stream))
    change, changes = call.input(SignalStreamChange), changes_of(call.services)
    header = change.authorization_header
    url = stream.url if change.url is UNSET else change.url
    method = stream.method if url and stream.is_push else (PUSH if url else POLL)
    kept = (changes.authorization(stream) or "") if url else ""
    choices = StreamChoices(
        StreamDelivery(method, url, kept if header is UNSET else header),
        stream.events if change.events is UNSET else uris_of(change.events),
        stream.description if change.description is UNSET else change.description,
        None if change.subject_format is UNSET else change.subject_format,
    )
    client = _client(tx, stream.client_id)
    with _fault_at_field():
        changed = changes.change(tx, stream, client, choices, call.entropy, call.now)
    return Result(_shown(tx, changed, whole=True), etag=signal_stream_tag(changed))


def list_failures(tx: Transaction, call: Call) -> Result:
    """List the newest failed deliveries of a stream. Refused: not found."""
    stream = found_stream(tx, call.named("stream_id"))
    whole = _may_change(tx, call)
    return Result(
        SignalFailureList(
            [
                SignalFailureShown(
                    failure.token_id,
                    failure.type.rpartition("/")[2],
                    failure.at,
                    failure.attempt,
                    failure.outcome,
                    failure.description if whole else "",
                    failure.dropped,
                )
                for failure in SignalStreams.of(tx).failures(stream.id, _SHOWN)
            ]
        )
    )


def create_apple(tx: Transaction, call: Call) -> Result | Faults:
    """Register Apple Business Manager, which then creates its stream itself."""
    tx.clients.touch()
    require(tx, call.actor, call.operation.permission)
    secret = call.new_secret(Prefix.CLIENT_SECRET)
    metadata = ClientMetadata(
        name=APPLE_NAME,
        redirect_uris=(APPLE_CALLBACK,),
        grant_types=(GrantTypeName.AUTHORIZATION_CODE, GrantTypeName.REFRESH_TOKEN),
        scopes=(OPENID, "profile", "email", OFFLINE_ACCESS, *SCOPES),
        default_scopes=(OPENID, "profile", "email"),
    )
    made = registrar(call).register(
        tx, metadata, call.now, client_id=call.new_id("client"), secret=secret
    )
    if isinstance(made, tuple):
        return made
    issuer = call.services.settings.authorization.url
    return Result(
        SignalReceiverShown(
            made.id,
            secret.reveal(),
            f"{issuer}/.well-known/ssf-configuration",
            f"{issuer}/.well-known/openid-configuration",
        )
    )


def found_stream(tx: Transaction, stream_id: str) -> SignalStream:
    """Return a stream. Raises Refused: not found."""
    stream = SignalStreams.of(tx).find(stream_id)
    if stream is None:
        raise rules.no_such_stream()
    return stream


def uris_of(events: list[str]) -> tuple[str, ...]:
    """Return the event types of these short names; all for none."""
    return tuple(SHORT[name] for name in dict.fromkeys(events)) or SUPPORTED


def short_names(stream: SignalStream) -> list[str]:
    """Return the short names of the events that a stream sends."""
    return [event_type.rpartition("/")[2] for event_type in stream.delivered]


def _delivery(url: str, header: str) -> StreamDelivery:
    return StreamDelivery(PUSH if url else POLL, url, header or None)


def _client(tx: Transaction, client_id: str) -> Client:
    client = tx.clients.find(client_id)
    if client is None:
        raise InvalidInput([input_fault("client_id", "app.unknown")])
    return client


_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "delivery": "authorization_header",
        "delivery.authorization_header": "authorization_header",
        "delivery.endpoint_url": "url",
        "format": "subject_format",
    }
)
"""The field of the input by the member of the stream."""


@contextmanager
def _fault_at_field() -> Generator[None]:
    try:
        yield
    except InvalidStream as invalid:
        field = _FIELDS.get(invalid.fault.field, invalid.fault.field)
        raise InvalidInput([replace(invalid.fault, field=field)]) from None


def _shown(tx: Transaction, stream: SignalStream, *, whole: bool) -> SignalStreamShown:
    return signal_stream_shown(stream, SignalQueue.of(tx).waiting_for(stream.id), whole=whole)


def _may_change(tx: Transaction, call: Call) -> bool:
    return call.actor.permissions_in(tx).allow(Permission.SETTINGS)


def _on_stream(function: Callable[[Transaction, Call, SignalStream], object]) -> Run:
    def checked(tx: Transaction, call: Call) -> object:
        # First: the role is checked with the actor's own account locked.
        SignalStreams.of(tx).hold_all()
        require(tx, call.actor, call.operation.permission)
        return function(tx, call, found_stream(tx, call.named("stream_id")))

    return unchecked_write(checked)


def _becomes(status: StreamStatus) -> Run:
    def change(tx: Transaction, call: Call, stream: SignalStream) -> bool:
        reason = "" if status is StreamStatus.ENABLED else f"{status.value} by an operator"
        return rules.set_status(
            tx, stream, status, reason, call.entropy, call.now, by_receiver=False
        )

    return _on_stream(change)


def _verify(tx: Transaction, call: Call, stream: SignalStream) -> bool:
    rules.verify(tx, stream, None, call.entropy, call.now, by_receiver=False)
    return True


_COLUMNS = (
    ("STREAM", "stream_id"),
    ("APP", "client_id"),
    ("STATUS", "status"),
    ("METHOD", "method"),
    ("WAITING", "waiting"),
    ("DROPPED", "dropped"),
    ("FAILURES", "failures"),
)

LIST_STREAMS = Operation(
    "list_signal_streams",
    "GET",
    _ALL,
    Permission.READ,
    "List streams of security events",
    reads(list_streams),
    output=SignalStreamList,
    returns_list=True,
    commands=(Command(columns=_COLUMNS, empty="There are no streams."),),
)

CREATE_STREAM = Operation(
    "create_signal_stream",
    "POST",
    _ALL,
    Permission.SETTINGS,
    "Create a stream of security events to an app",
    unchecked_write(create_stream),
    description="Receivers create their own streams by the API that the metadata at "
    "/.well-known/ssf-configuration describes.",
    input=SignalStreamWanted,
    output=SignalStreamShown,
    status=201,
    error_statuses=(400, 404, 409),
    event=SignalStreamCreated,
    requires_recent_sign_in=True,
    commands=(
        Command(
            options=(Option("client_id", argument=True),),
            example="web1 --url https://receiver.example/events --event session-revoked",
        ),
    ),
)

READ_STREAM = Operation(
    "read_signal_stream",
    "GET",
    _ONE,
    Permission.READ,
    "Show a stream of security events",
    reads(read_stream),
    output=SignalStreamShown,
    returns_etag=True,
)

CHANGE_STREAM = Operation(
    "change_signal_stream",
    "PATCH",
    _ONE,
    Permission.SETTINGS,
    "Change a stream; waiting tokens are sent to the new address",
    _on_stream(change_stream),
    input=SignalStreamChange,
    output=SignalStreamShown,
    requires_if_match=True,
    returns_etag=True,
    event=SignalStreamChanged,
    requires_recent_sign_in=True,
)

DELETE_STREAM = Operation(
    "delete_signal_stream",
    "DELETE",
    _ONE,
    Permission.SETTINGS,
    "Delete a stream; waiting tokens are not sent",
    _on_stream(lambda tx, call, it: rules.remove(tx, it, call.now)),
    output=Done,
    event=SignalStreamRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete stream"),
            translatable("Waiting tokens are not sent. The receiver can create another stream."),
            "",
            shown_for=on(SignalStream),
            danger=True,
        ),
    ),
    commands=(
        Command(
            question="Delete this stream? Waiting tokens are not sent.",
            done="The stream is deleted.",
        ),
    ),
)

ENABLE_STREAM = Operation(
    "enable_signal_stream",
    "POST",
    f"{_ONE}/enable",
    Permission.SETTINGS,
    "Enable a stream; waiting tokens are sent",
    _becomes(StreamStatus.ENABLED),
    output=Done,
    event=SignalStreamUpdated,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "enable",
            translatable("Enable stream"),
            translatable("Waiting tokens are sent."),
            translatable("The stream is enabled."),
            shown_for=on(SignalStream, lambda it: it.status is not StreamStatus.ENABLED),
        ),
    ),
    commands=(Command(unchanged="The stream was enabled already."),),
)

PAUSE_STREAM = Operation(
    "pause_signal_stream",
    "POST",
    f"{_ONE}/pause",
    Permission.SETTINGS,
    "Pause a stream; tokens wait until it is enabled",
    _becomes(StreamStatus.PAUSED),
    output=Done,
    event=SignalStreamUpdated,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "pause",
            translatable("Pause stream"),
            translatable("At most 10,000 tokens wait, each for at most seven days."),
            translatable("The stream is paused."),
            shown_for=on(SignalStream, lambda it: it.status is StreamStatus.ENABLED),
        ),
    ),
    commands=(Command(confirms=False, unchanged="The stream was paused already."),),
)

DISABLE_STREAM = Operation(
    "disable_signal_stream",
    "POST",
    f"{_ONE}/disable",
    Permission.SETTINGS,
    "Disable a stream; waiting tokens are deleted",
    _becomes(StreamStatus.DISABLED),
    output=Done,
    event=SignalStreamUpdated,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "disable",
            translatable("Disable stream"),
            translatable("Waiting tokens are deleted. The receiver cannot enable the stream."),
            translatable("The stream is disabled."),
            shown_for=on(SignalStream, lambda it: it.status is not StreamStatus.DISABLED),
            danger=True,
        ),
    ),
    commands=(
        Command(
            question="Disable this stream? Waiting tokens are deleted.",
            unchanged="The stream was disabled already.",
        ),
    ),
)

VERIFY_STREAM = Operation(
    "verify_signal_stream",
    "POST",
    f"{_ONE}/verify",
    Permission.SETTINGS,
    "Send a verification event to the receiver",
    _on_stream(_verify),
    output=Done,
    error_statuses=(409,),
    event=SignalStreamVerified,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "verify",
            translatable("Send verification"),
            translatable("The receiver gets a verification event, which it must accept."),
            translatable("A verification event is queued."),
            shown_for=on(SignalStream, lambda it: it.status is StreamStatus.ENABLED),
        ),
    ),
    commands=(Command(done="A verification event is queued."),),
)

LIST_STREAM_FAILURES = Operation(
    "list_signal_stream_failures",
    "GET",
    f"{_ONE}/failures",
    Permission.READ,
    "List the newest hundred failed deliveries of a stream",
    reads(list_failures),
    output=SignalFailureList,
    returns_list=True,
    commands=(
        Command(
            "signal-stream failures",
            columns=(
                ("TOKEN", "token_id"),
                ("TYPE", "type"),
                ("ATTEMPT", "attempt"),
                ("OUTCOME", "outcome"),
                ("DESCRIPTION", "description"),
            ),
            empty="No delivery failed in the last thirty days.",
        ),
    ),
)

CREATE_APPLE = Operation(
    "create_apple_business_manager",
    "POST",
    "/signal-streams/receivers/apple-business-manager",
    Permission.CLIENTS,
    "Register Apple Business Manager as app and receiver; its secret is shown once",
    unchecked_write(create_apple),
    output=SignalReceiverShown,
    status=201,
    error_statuses=(400,),
    event=ClientRegistered,
    requires_recent_sign_in=True,
    commands=(Command("signal-stream apple-business-manager"),),
)

STREAMS = (
    LIST_STREAMS,
    CREATE_STREAM,
    READ_STREAM,
    CHANGE_STREAM,
    VERIFY_STREAM,
    ENABLE_STREAM,
    PAUSE_STREAM,
    DISABLE_STREAM,
    DELETE_STREAM,
    LIST_STREAM_FAILURES,
    CREATE_APPLE,
)
