"""Pages about streams of security events in the console: list, failures, forms, operations."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.signals.model import (
    ADDRESS,
    MOST_STREAMS,
    SignalFailure,
    SignalStream,
    StreamStatus,
)
from valetkey.authorization.signals.operations import (
    CHANGE_STREAM,
    CREATE_STREAM,
    DELETE_STREAM,
    STREAMS,
    SignalStreamShown,
    found_stream,
    signal_stream_tag,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.site.admin.administrator import SERVER, AdminRequest, administrator
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    ConfirmationPages,
    Confirmed,
    Subject,
)
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    Related,
    facts,
    read_activity,
)
from valetkey.authorization.site.admin.objects import (
    DISABLED,
    FAILING,
    Line,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    badge,
    code,
    since,
    since_or_none,
    text,
    unsorted,
    words,
)
from valetkey.authorization.site.admin.references import APPS
from valetkey.authorization.site.page import AnyPage, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked, path_segment
from valetkey.web.body import Form

_FAILURES = 50
_PUSH, _POLL = translatable("Push"), translatable("Poll")
_ONE = f"{ADDRESS}/{{stream_id}}"
_ABOVE = translatable("Security event streams")
_WORDS: Words = {
    "client_id": (translatable("App"), translatable("The receiver, by name or client ID.")),
    "url": (
        translatable("Address"),
        translatable("The https address that tokens are pushed to. Leave empty for polling."),
    ),
    "events": (
        translatable("Events"),
        translatable("Select none to send all of these."),
    ),
    "description": (translatable("Description"), translatable("What it is for.")),
    "authorization_header": (
        translatable("Authorization header"),
        translatable("What the receiver expects with each push: a scheme and a secret."),
    ),
    "subject_format": (translatable("Users are named by"), ""),
}

_EDITED: Words = {
    # The header is not shown, and a field that is left empty would remove it.
    name: text
    for name, text in _WORDS.items()
    if name not in {"client_id", "authorization_header"}
}

_EVENTS = {
    "session-revoked": translatable("A session ended"),
    "credential-change": translatable("A password, passkey or authenticator app changed"),
    "token-claims-change": translatable("Claims of a user changed"),
    "account-disabled": translatable("An account was disabled"),
    "account-enabled": translatable("An account was enabled"),
    "account-purged": translatable("An account was deleted"),
}
_FORMATS = {
    "iss_sub": translatable("Issuer and subject"),
    "email": translatable("Email address"),
    "opaque": translatable("Opaque identifier"),
}
_CHOICES = {"events": tuple(_EVENTS.items()), "subject_format": tuple(_FORMATS.items())}
_STATES = {
    "enabled": badge(translatable("Active")),
    "failing": FAILING,
    "paused": badge(translatable("Paused"), "alarm"),
    "disabled": DISABLED,
}
_LIST = ListDeclaration(
    ADDRESS,
    ListWords(
        caption=translatable("Streams, oldest first"),
        new=translatable("New stream"),
        empty_title=translatable("No streams yet"),
        empty_text=translatable(
            "A stream sends security events about users to an app: sessions that ended,"
            " credentials that changed, accounts that were disabled. Receivers such as Apple"
            " Business Manager create their own."
        ),
    ),
    unsorted(
        translatable("App"),
        translatable("State"),
        translatable("Delivery"),
        translatable("Waiting"),
    ),
    new_url=f"{ADDRESS}/new",
)
_DONE = {"edit": translatable("The stream is changed.")}

BUTTONS = Buttons.below("/signal-streams/{stream_id}", of=STREAMS)


class SignalStreamPages(Struct, frozen=True):
    """The pages about streams."""

    services: Services

    def pages(self) -> tuple[AnyPage, ...]:
        """The list, the form for another one, one stream, its form and its operations."""
        changes = administrator(Permission.SETTINGS, recent=True)
        services = self.services
        return (
            Page(
                ADDRESS,
                administrator(),
                self.list,
                title=_ABOVE,
                nav=SERVER,
                docs="how-to/operate/shared-signals.html",
            ),
            InputForm(
                f"{ADDRESS}/new",
                changes,
                lambda request: request.actor,
                services,
                CREATE_STREAM,
                SignalStreamShown,
                _WORDS,
                translatable("New stream"),
                self._new,
                self._made,
                submit=translatable("Create stream"),
                choices=_CHOICES,
                secrets=("authorization_header",),
                references={"client_id": APPS},
            ).page(),
            Page(_ONE, administrator(), self.show),
            InputForm(
                f"{_ONE}/edit",
                changes,
                lambda request: request.actor,
                services,
                CHANGE_STREAM,
                SignalStreamShown,
                _EDITED,
                translatable("Edit stream"),
                self._edited,
                self._made,
                choices=_CHOICES,
            ).page(),
            ConfirmationPages(
                f"{_ONE}/{{act}}",
                BUTTONS.requirement,
                lambda request: request.actor,
                BUTTONS,
                services,
                self._subject,
                self._finish,
            ).page(),
        )

    async def list(self, request: AdminRequest) -> Outcome:
        """Show the streams, oldest first."""

        def read_state(tx: Transaction) -> tuple[Row, ...]:
            require(tx, request.actor, Permission.READ)
            return tuple(
                Row(
                    stream.id,
                    _name(tx, stream),
                    _at(stream.id),
                    (
                        (_state(stream),),
                        (words(_PUSH if stream.is_push else _POLL),),
                        (Part("number", count=SignalQueue.of(tx).waiting_for(stream.id)),),
                    ),
                    tuple(
                        it for it in (code(stream.client_id), text(stream.description)) if it.text
                    ),
                )
                for stream in SignalStreams.of(tx).all()
            )

        rows = await self.services.store.scan(read_state)
        may = request.permissions.allow(Permission.SETTINGS) and len(rows) < MOST_STREAMS
        done = translatable("Stream deleted.") if "deleted" in request.query else ""
        return Show(_LIST.whole(rows, may=may, done=done))

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a stream with its failed deliveries."""
        now, may = request.now, request.permissions.allow(Permission.SETTINGS)

        def read_state(tx: Transaction) -> tuple[SignalStream, str, int, Sequence[SignalFailure]]:
            require(tx, request.actor, Permission.READ)
            stream = found_stream(tx, request.arguments["stream_id"])
            waiting = SignalQueue.of(tx).waiting_for(stream.id)
            failures = SignalStreams.of(tx).failures(stream.id, _FAILURES)
            return stream, _name(tx, stream), waiting, failures

        stream, name, waiting, failures = await self.services.store.scan(read_state)
        address = _at(stream.id)
        page = ObjectPage(
            ADDRESS,
            _ABOVE,
            name,
            state=(_state(stream),),
            description=stream.description,
            done=BUTTONS.done(request.query.get("done"), _DONE),
            figures=(
                (translatable("Waiting tokens"), waiting),
                (translatable("Dropped tokens"), stream.dropped),
                (translatable("Failures in a row"), stream.failures),
            ),
            facts=tuple(_facts(stream, now, name, stream.url if may else masked(stream.url))),
            links=(("edit", translatable("Edit stream"), f"{address}/edit"),) if may else (),
            actions=BUTTONS.offers(stream, request.permissions, address),
            related=(
                Related(
                    "failures",
                    translatable("Failed deliveries"),
                    tuple(_failure(failure, now, whole=may) for failure in failures),
                    translatable("No delivery failed in the last thirty days."),
                ),
            ),
            activity=await read_activity(self.services, request, f"stream:{stream.id}"),
        )
        return Show(page)

    async def _new(self, request: AdminRequest) -> FormSubject:
        del request
        return FormSubject(ADDRESS, _ABOVE)

    async def _made(self, request: AdminRequest, made: SignalStreamShown) -> Outcome:
        query_string = "?done=edit" if "stream_id" in request.arguments else ""
        return SeeOther(f"{_at(made.stream_id)}{query_string}")

    async def _edited(self, request: AdminRequest) -> FormSubject:
        stream = await self._find(request)
        return FormSubject(
            _at(stream.id),
            stream.client_id,
            values={
                "url": stream.url,
                "events": as_text([_short(event_type) for event_type in stream.delivered]),
                "description": stream.description,
                "subject_format": stream.subject_format.value,
            },
            etag=signal_stream_tag(stream),
        )

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        del confirmed, form
        stream = await self._find(request)
        return Subject(_at(stream.id), stream.client_id)

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        del result
        if confirmed.operation is DELETE_STREAM:
            return SeeOther(f"{ADDRESS}?deleted=1")
        address = _at(request.arguments["stream_id"])
        return SeeOther(f"{address}?done={confirmed.button.slug}")

    async def _find(self, request: AdminRequest) -> SignalStream:
        return await self.services.store.read(
            lambda tx: found_stream(tx, request.arguments["stream_id"])
        )


def _name(tx: Transaction, stream: SignalStream) -> str:
    client = tx.clients.find(stream.client_id)
    return (client.name if client else "") or stream.client_id


def _state(stream: SignalStream) -> Part:
    failing = stream.failing_since is not None and stream.status is StreamStatus.ENABLED
    return _STATES["failing" if failing else stream.status.value]


def _facts(stream: SignalStream, now: Instant, name: str, url: str) -> Iterator[Fact]:
    yield from facts(
        (
            (translatable("App"), text(name, client_address(stream.client_id))),
            (translatable("Delivery"), words(_PUSH if stream.is_push else _POLL)),
            (translatable("Address"), code(url)),
            (translatable("Reason"), text(stream.reason)),
        )
    )
    events = tuple(
        words(_EVENTS[_short(event_type)], _short(event_type)) for event_type in stream.delivered
    )
    yield Fact(translatable("Events"), events)
    named_by = words(_FORMATS[stream.subject_format], stream.subject_format)
    yield from facts(
        (
            (translatable("Users are named by"), named_by),
            (translatable("Stream"), Part("copy", stream.id, small="stream-id")),
            (translatable("Created"), since(When(stream.created_at, now))),
            (translatable("Last delivery"), since_or_none(stream.last_delivery_at, now)),
            (translatable("Failing since"), since_or_none(stream.failing_since, now)),
        )
    )


def _failure(failure: SignalFailure, now: Instant, *, whole: bool) -> Line:
    """Return a failed delivery as a line; without the receiver's text unless `whole`."""
    return Line(
        text(_short(failure.type)),
        (
            badge(failure.outcome, "alarm"),
            *((badge(translatable("dropped"), "note"),) if failure.dropped else ()),
        ),
        (
            since(When(failure.at, now)),
            words(translatable("attempt %(number)s"), number=failure.attempt),
            code(failure.token_id),
            *((text(failure.description),) if whole and failure.description else ()),
        ),
    )


def _at(stream_id: str) -> str:
    return f"{ADDRESS}/{path_segment(stream_id)}"


def _short(kind: str) -> str:
    return kind.rpartition("/")[2]
