"""Pages about streams of security events in the console: list, failures, forms, operations."""

from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.signals.model import (
    ADDRESS,
    MOST_STREAMS,
    SignalFailure,
    SignalStream,
)
from valetkey.authorization.signals.operations import (
    CHANGE_STREAM,
    CREATE_STREAM,
    DELETE_STREAM,
    SHORT,
    STREAMS,
    SignalStreamShown,
    found_stream,
    signal_stream_tag,
)
from valetkey.authorization.signals.storage import SignalQueue, SignalStreams
from valetkey.authorization.site.admin.administrator import SERVER, AdminRequest, administrator
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    ConfirmationPages,
    Confirmed,
    Offer,
    Subject,
)
from valetkey.authorization.site.admin.input_fields import Words, as_text
from valetkey.authorization.site.admin.input_form import FormSubject, InputForm
from valetkey.authorization.site.admin.references import APPS, suggestions
from valetkey.authorization.site.page import AnyPage, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.text import translatable
from valetkey.kernel.url import masked
from valetkey.web.body import Form

_FAILURES = 50
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
        translatable("Types such as session-revoked. Leave empty for every event."),
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

_REFERENCES = {"client_id": APPS, "events": suggestions(lambda: SHORT)}

BUTTONS = Buttons.below("/signal-streams/{stream_id}", of=STREAMS)


class SignalStreamRow(Struct, frozen=True):
    """A stream in the list. `state` is its status, or failing."""

    address: str
    client_id: str
    method: str
    state: str
    waiting: int


class SignalStreamsPage(Struct, frozen=True):
    """The list; `new_url` is "" if the role may not add one, or at the maximum number."""

    template: ClassVar[str] = "signals/streams.html"

    listed: tuple[SignalStreamRow, ...]
    new_url: str
    deleted: bool


class SignalFailureLine(Struct, frozen=True):
    """A failed delivery."""

    at: When
    type: str
    token_id: str
    attempt: int
    outcome: str
    description: str
    dropped: bool


class SignalStreamPage(Struct, frozen=True):
    """One stream."""

    template: ClassVar[str] = "signals/stream.html"
    title: ClassVar[str] = translatable("Security event stream")

    back: str
    row: SignalStreamRow
    stream_id: str
    url: str
    events: tuple[str, ...]
    description: str
    reason: str
    dropped: int
    failures: int
    created: When
    delivered: When | None
    failing: When | None
    ways: tuple[Offer, ...]
    edit_url: str
    failed: tuple[SignalFailureLine, ...]
    done: str = ""


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
                references=_REFERENCES,
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
                references=_REFERENCES,
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

        def read_state(tx: Transaction) -> tuple[SignalStreamRow, ...]:
            require(tx, request.actor, Permission.READ)
            return tuple(
                _row(each, SignalQueue.of(tx).waiting_for(each.id))
                for each in SignalStreams.of(tx).all()
            )

        rows = await self.services.store.scan(read_state)
        may = request.permissions.allow(Permission.SETTINGS) and len(rows) < MOST_STREAMS
        new_url = f"{ADDRESS}/new" if may else ""
        return Show(SignalStreamsPage(rows, new_url, "deleted" in request.query))

    async def show(self, request: AdminRequest) -> Outcome:
        """Show a stream with its failed deliveries."""
        now, may = request.now, request.permissions.allow(Permission.SETTINGS)

        def read_state(tx: Transaction) -> tuple[SignalStream, int, Sequence[SignalFailure]]:
            require(tx, request.actor, Permission.READ)
            stream = found_stream(tx, request.arguments["stream_id"])
            waiting = SignalQueue.of(tx).waiting_for(stream.id)
            return stream, waiting, SignalStreams.of(tx).failures(stream.id, _FAILURES)

        stream, waiting, failures = await self.services.store.scan(read_state)
        last, since = stream.last_delivery_at, stream.failing_since
        page = SignalStreamPage(
            back=ADDRESS,
            row=_row(stream, waiting),
            stream_id=stream.id,
            url=stream.url if may else masked(stream.url),
            events=tuple(_short(each) for each in stream.delivered),
            description=stream.description,
            reason=stream.reason,
            dropped=stream.dropped,
            failures=stream.failures,
            created=When(stream.created_at, now),
            delivered=None if last is None else When(last, now),
            failing=None if since is None else When(since, now),
            ways=BUTTONS.offers(stream, request.permissions, _at(stream.id)),
            edit_url=f"{_at(stream.id)}/edit" if may else "",
            failed=tuple(
                SignalFailureLine(
                    When(each.at, now),
                    _short(each.type),
                    each.token_id,
                    each.attempt,
                    each.outcome,
                    each.description if may else "",
                    each.dropped,
                )
                for each in failures
            ),
            done=BUTTONS.done(request.query.get("done"), _DONE),
        )
        return Show(page)

    async def _new(self, request: AdminRequest) -> FormSubject:
        del request
        return FormSubject(ADDRESS, _ABOVE)

    async def _made(self, request: AdminRequest, made: SignalStreamShown) -> Outcome:
        said = "?done=edit" if "stream_id" in request.arguments else ""
        return SeeOther(f"{_at(made.stream_id)}{said}")

    async def _edited(self, request: AdminRequest) -> FormSubject:
        stream = await self._find(request)
        return FormSubject(
            _at(stream.id),
            stream.client_id,
            {
                "url": stream.url,
                "events": as_text([_short(each) for each in stream.delivered]),
                "description": stream.description,
                "subject_format": stream.subject_format.value,
            },
            signal_stream_tag(stream),
        )

    async def _subject(self, request: AdminRequest, confirmed: Confirmed, form: Form) -> Subject:
        del confirmed, form
        stream = await self._find(request)
        return Subject(_at(stream.id), stream.client_id)

    async def _finish(self, request: AdminRequest, confirmed: Confirmed, result: object) -> Outcome:
        del result
        if confirmed.operation is DELETE_STREAM:
            return SeeOther(f"{ADDRESS}?deleted=1")
        place = _at(request.arguments["stream_id"])
        return SeeOther(f"{place}?done={confirmed.button.slug}")

    async def _find(self, request: AdminRequest) -> SignalStream:
        return await self.services.store.read(
            lambda tx: found_stream(tx, request.arguments["stream_id"])
        )


_DONE = {"edit": translatable("The stream is changed.")}


def _row(stream: SignalStream, waiting: int) -> SignalStreamRow:
    failing = stream.failing_since is not None and stream.status.value == "enabled"
    return SignalStreamRow(
        _at(stream.id),
        stream.client_id,
        "push" if stream.is_push else "poll",
        "failing" if failing else stream.status.value,
        waiting,
    )


def _at(stream_id: str) -> str:
    return f"{ADDRESS}/{quote(stream_id, safe='')}"


def _short(kind: str) -> str:
    return kind.rpartition("/")[2]
