"""Events as sentences, with their fields: for the event log and the page of a user."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.search import is_gone, named_object
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.email import label_of
from valetkey.authorization.model.event.accounts import MailDispatched, MailGivenUp
from valetkey.authorization.model.event.event import Event, is_directory
from valetkey.authorization.model.user import LARGEST_UID, Uid
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.storage.records import EventRecord
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

_EMPTY = "\u2013"
_MOMENTS = ("_at", "_until")
_OF_EMAIL = frozenset({MailDispatched.name, MailGivenUp.name})
_COLUMNS = frozenset({"uid", "client_id", "grant_id"})


class Link(Struct, frozen=True):
    """A name with the URL of its page."""

    name: str
    url: str


NONE = Link("", "")
"""No user or no app."""


class ActorShown(Struct, frozen=True):
    """The actor: a kind of `DoneBy`, or "self" for the user or app that the event is about.

    `token` is the API token of a user's program.
    """

    kind: str
    who: Link = NONE
    token: str = ""


class EventRow(Struct, frozen=True):
    """One event: its sentence in English, the values that fill it, and every field.

    `sentence` is "" for events of a version that had other kinds. The IP address of its request is
    "" if it is unknown, not recorded or erased.
    """

    id: str
    name: str
    when: When
    sentence: str
    values: Mapping[str, str]
    user: Link
    app: Link
    actor: ActorShown
    fields: tuple[tuple[str, str], ...]
    ip_address: str = ""
    #: The name of the kind of an email, marked for translation: shown in place of its code.
    email: str = ""
    #: Why, marked for translation: shown in place of the code in the sentence; "" if it has none.
    reason: str = ""
    #: The object that it is about, shown in place of this field, if the event has a field with it.
    subject: Link = NONE
    subject_field: str = ""


class Names(Struct, frozen=True):
    """The names of users and apps that events mention."""

    users: Mapping[int, str]
    apps: Mapping[str, str]
    #: By subject, as in events.
    objects: Mapping[str, Link] = MappingProxyType({})

    def user(self, uid: int | None) -> Link:
        """Return the user of this uid; a deleted user is named by it and has no page."""
        if not uid:
            return NONE
        name = self.users.get(uid)
        return Link(name, user_address(Uid(uid))) if name else Link(str(uid), "")

    def app(self, client_id: str | None) -> Link:
        """Return the app of this id; a deleted app is named by it and has no page."""
        if not client_id:
            return NONE
        name = self.apps.get(client_id)
        return Link(name, client_address(client_id)) if name else Link(client_id, "")


def names_in(tx: Transaction, events: Sequence[EventRecord]) -> Names:
    """Look up the users, apps and objects that these events mention, including their actors."""
    subjects = {event.subject for event in events if event.subject}
    uids = {event.uid for event in events if event.uid}
    apps = {event.client_id for event in events if event.client_id}
    for event in events:
        kind, _, rest = event.done_by.partition(" ")
        if kind == "user" and (uid := _uid(rest)):
            uids.add(uid)
            if token := rest.partition(" token ")[2]:
                subjects.add(f"token:{token}")
        elif kind == "client":
            apps.add(rest)
        elif is_directory(event.done_by):
            subjects.add(event.done_by.replace(" ", ":", 1))
    users = ((uid, tx.users.find(Uid(uid))) for uid in uids)
    clients = ((client_id, tx.clients.find(client_id)) for client_id in apps)
    objects = {
        subject: Link(*named)
        for subject in subjects
        if (named := named_object(tx, subject)) is not None
    }
    return Names(
        {uid: user.username for uid, user in users if user is not None and not is_gone(user)},
        {
            client_id: client.name or client_id
            for client_id, client in clients
            if client is not None
        },
        objects,
    )


def rows_of(
    events: Sequence[EventRecord], names: Names, now: Instant, kinds: Mapping[str, type[Event]]
) -> tuple[EventRow, ...]:
    """Return the events as the console shows them."""
    return tuple(_row(event, names, now, kinds.get(event.name)) for event in events)


def _row(event: EventRecord, names: Names, now: Instant, kind: type[Event] | None) -> EventRow:
    data = msgspec.json.decode(event.data, type=dict[str, object])
    texts = {word: _text(word, value, now) for word, value in data.items()}
    of_kind = () if kind is None else kind.__struct_fields__
    field = "" if kind is None else kind.subject_field()
    gone = Link(_EMPTY if kind is None else kind.former_name(texts) or _EMPTY, "")
    return EventRow(
        id=event.id,
        name=event.name,
        when=When(event.at, now),
        sentence="" if kind is None else kind.sentence_of({**texts, "uid": str(event.uid or "")}),
        values={word: texts.get(word) or _EMPTY for word in of_kind},
        user=names.user(event.uid),
        app=names.app(event.client_id),
        actor=_actor(event, names),
        fields=tuple(_fields(event, texts)),
        ip_address="" if event.origin is None else event.origin.address,
        email=label_of(texts.get("kind", "")) if event.name in _OF_EMAIL else "",
        reason="" if kind is None else kind.reasons.get(texts.get("because", ""), ""),
        subject=names.objects.get(event.subject or "", gone) if field else NONE,
        subject_field=field,
    )


def _fields(event: EventRecord, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "id", event.id
    yield "at", When(event.at, event.at).exact
    for word in ("uid", "client_id", "grant_id"):
        if value := getattr(event, word):
            yield word, str(value)
    yield from ((word, value) for word, value in texts.items() if value and word not in _COLUMNS)
    yield "done_by", event.done_by
    if event.origin is not None and (browser := event.origin.shown_browser):
        yield "browser", browser


def _actor(event: EventRecord, names: Names) -> ActorShown:
    kind, _, rest = event.done_by.partition(" ")
    match kind:
        case "user" if uid := _uid(rest):
            token = rest.partition(" token ")[2]
            is_self = uid == event.uid and not token
            named = names.objects.get(f"token:{token}")
            shown = token if named is None else named.name
            return ActorShown("self" if is_self else "user", names.user(uid), shown)
        case "client":
            return ActorShown("self" if rest == event.client_id else "client", names.app(rest))
        case _:
            # A directory is named by its credential, as a subject is.
            return ActorShown(kind, names.objects.get(f"{kind}:{rest}", Link(rest, "")))


def _uid(text: str) -> int:
    first = text.partition(" ")[0]
    is_one = first.isascii() and first.isdigit() and len(first) <= len(str(LARGEST_UID))
    return int(first) if is_one else 0


def _text(word: str, value: object, now: Instant) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case int() if word.endswith(_MOMENTS):
            return When(Instant(value), now).exact
        case list():
            return ", ".join(str(item) for item in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)
