"""An operation of administration: one row, from which every interface to it derives.

Name, arguments, options, help, confirmation and output derive from the row; a `Command` overrides
them for compatibility with scripts or for readability.

The route of the admin API with its OpenAPI description, the console's button and confirmation page,
the command and the reference page read the same row. Its function runs in a transaction that has
checked the actor's permission.
"""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from valetkey.authorization.actions.account.removal import Removal
from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.actions.admin.roles import Roles, user_to_change
from valetkey.authorization.actions.admin.search import client_to_change
from valetkey.authorization.actions.clients import Registrar, Sectors
from valetkey.authorization.actions.presets import DeveloperPolicy
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.email.notices import Links, MailOutbox
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Uid, User, uid_of
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, MetadataError, matching
from valetkey.authorization.storage.search import END, ListOrder, TimeCursor
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.preconditions import NO_PRECONDITIONS, Preconditions, etag_of
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, fresh_id, fresh_secret
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment, segment_name
from valetkey.web.exchange import Response


class Option(Struct, frozen=True):
    """The option for a field of the input; `address.formatted` is a field of a field.

    Also that for an argument of the path, which is positional without one, and for a parameter of
    the query.

    `name` is the option, such as `--days`; "" for the field's own name. An `argument` is
    positional. One `from_file` names a file with the value, - for standard input. A number is
    entered in `unit` seconds, as is `default`; one of a `duration` as a number with its unit. A
    `user` is named as everywhere on the command line, and converted to a uid.
    """

    field: str
    name: str = ""
    help: str = ""
    argument: bool = False
    unit: int = 1
    duration: bool = False
    default: int | None = None
    user: bool = False
    from_file: bool = False


class Command(Struct, frozen=True):
    """A command that runs an operation. Empty texts are derived from the row.

    `name` includes the group: `client verify`. `summary` is the first line of the help. If two rows
    have the same name, one is `off`: it runs with `--off`. `path_arguments` are those that the
    command itself sets. `question` is asked first; without one, the text of a button that is marked
    as dangerous, unless `confirms` is False. `done` and `unchanged` may name arguments, fields of
    the input and of the result in braces, as may `note`, which is written to standard error like
    `remark`, a remark about the settings. `columns` are heading and field of the table of a list,
    `empty` is printed if it has no rows; of one record, they are the fields that are printed,
    above its `documents`, which are printed as JSON. `renamed` are members of the JSON output that
    have another name than in the API. `sets_password` asks for a password, whose hash the call
    carries, unless the option of the field `instead_of_password` is given. `missing` explains a 404
    of the operation itself; the exit code is 1 then.
    """

    name: str = ""
    summary: str = ""
    help: str = ""
    example: str = ""
    options: Sequence[Option] = ()
    off: bool = False
    path_arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    question: str = ""
    confirms: bool = True
    done: str = ""
    unchanged: str = ""
    columns: Sequence[tuple[str, str]] = ()
    empty: str = ""
    documents: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    sets_password: bool = False
    instead_of_password: str = ""
    missing: str = ""
    note: str = ""
    remark: Callable[[Settings], str] | None = None


Moment = Annotated[
    int, msgspec.Meta(description="Seconds since 1970-01-01T00:00:00Z.", ge=0, le=1 << 53)
]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
GRANT_TYPE_ENUM = "grant types"
"""Stands in the schema of an input for the grant types, which are known with the features."""

Anything = Annotated[object, msgspec.Meta(extra_json_schema={"description": "Any JSON."})]
Line = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=500)]
# Neither controls nor what has no width or changes the direction of text.
_HIDDEN = r"\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
Name = Annotated[
    str,
    matching(
        rf"^[^\s{_HIDDEN}]([^{_HIDDEN}]{{0,78}}[^\s{_HIDDEN}])?$", "text.some", least=1, most=80
    ),
]


def change_of(
    kind: type[msgspec.Struct], name: str, text: str, members: Collection[str] = ()
) -> type[msgspec.Struct]:
    """Return the body of a change of these `members` of `kind`, all if empty.

    Absent members stay as they are. `text` is its description in the OpenAPI document; see
    `changes_in`.
    """
    types = get_type_hints(kind, include_extras=True).items()
    return msgspec.defstruct(
        name,
        [
            (member, type_ | UnsetType, UNSET)
            for member, type_ in types
            if not members or member in members
        ],
        namespace={"__doc__": text},
        frozen=True,
        forbid_unknown_fields=True,
    )


def changes_in(change: msgspec.Struct) -> dict[str, Any]:
    """Return the members that the body of a change has."""
    members = msgspec.structs.asdict(change).items()
    return {name: value for name, value in members if value is not UNSET}


class ListMembers(msgspec.Struct, frozen=True):
    """The members of every list besides its items."""

    next: str | None
    """The value of `cursor` for the next page; null at the end."""


class Done(msgspec.Struct, frozen=True):
    """Whether anything changed."""

    changed: bool


class Upload(msgspec.Struct, frozen=True):
    """The body of an operation that takes a file.

    `media` are its media types with the schema of each; `largest` is its maximum size in bytes.
    """

    media: Mapping[str, Mapping[str, object]]
    largest: Callable[[Settings], int]


class UploadedFile(msgspec.Struct, frozen=True):
    """A file that was sent: its media type, and its unchecked bytes."""

    media: str
    content: bytes


def tag_of(value: object) -> str:
    """Return the ETag of a record as shown."""
    return etag_of(msgspec.json.encode(value))


PREFIX = "/admin/api/v1"
"""The path of the admin API."""

ENTROPY = 48
"""Random bytes of each call, from which new ids and secrets are made."""

_ID = 16
_NOTHING: Mapping[str, str] = MappingProxyType({})

T = TypeVar("T")
Schema = Mapping[str, object]


class InvalidInput(Refused):
    """The input of an operation is invalid: which fields, and why."""

    def __init__(self, faults: Sequence[MetadataError]) -> None:
        """Refuse because of `faults`; a field is named as in `redirect_uris/0`."""
        super().__init__(
            Refusal(
                ErrorCode.INVALID_REQUEST,
                "some fields are not as they should be",
                "admin_api.fields",
                "; ".join(f"{fault.field}: {fault.detail}" for fault in faults),
            )
        )
        self.faults = tuple(faults)


class QueryParameter(Struct, frozen=True):
    """A query parameter of an operation."""

    name: str
    description: str
    schema: Schema


class Services(Struct, frozen=True):
    """The services that operations use; each registrar takes the interface of a change.

    `base` are the settings without stored values; `check` raises OperatorError for those refused.
    `requestable` are the scopes that apps can request from users.
    """

    settings: Settings
    store: Store
    fingerprints: FingerprintKey
    random: Callable[[int], bytes]
    keys: SigningKeyRing
    claims: TokenClaims
    registrar: Callable[[str], Registrar]
    sectors: Sectors
    accounts: Accounts
    removal: Removal
    roles: Roles
    links: Links
    outbox: MailOutbox
    keyring: Keyring
    outgoing: OutboundHttp
    runtime: Runtime
    base: Settings
    check: Callable[[Settings], None]
    kinds: Mapping[str, type[Event]]
    requestable: tuple[str, ...]
    developers: DeveloperPolicy


class Call(Struct, frozen=True):
    """One call of an operation by an actor; its input has the types that the row declares.

    `entropy` are random bytes, drawn before the transaction because that may run more than once.
    `password_hash` is that of a command that asks for a password. `by_program` is true in the admin
    API, where optional values that cannot be kept are left out; people are told what is wrong.
    """

    services: Services
    operation: "Operation"
    actor: Actor
    now: Instant
    entropy: bytes
    arguments: Mapping[str, str] = field(default_factory=dict[str, str])
    query: Mapping[str, str] = field(default_factory=dict[str, str])
    body: object = None
    preconditions: Preconditions = NO_PRECONDITIONS
    password_hash: str | None = None
    by_program: bool = False

    def input(self, kind: type[T]) -> T:
        """Return the body as the type that the row takes."""
        if not isinstance(self.body, kind):
            raise TypeError(f"{self.operation.id} takes no {kind.__name__}")
        return self.body

    def named(self, name: str) -> str:
        """Return a segment of the path, decoded. Raises Refused (not found) if unprintable."""
        text = segment_name(self.arguments[name])
        if self.arguments[name] and not text:
            raise Refused.because(ErrorCode.NOT_FOUND, "this page does not exist", "admin_api.name")
        return text

    @property
    def uid(self) -> Uid:
        """Return the uid in the path. Raises Refused (not found) for other text."""
        uid = uid_of(self.arguments["uid"])
        if uid is None:
            raise Refused.because(ErrorCode.NOT_FOUND, "this user does not exist", "admin.user")
        return uid

    def new_id(self, prefix: str) -> str:
        """Return the identifier that this call may assign; the same each time."""
        return fresh_id(prefix, lambda size: self.entropy[:size])

    def new_secret(self, prefix: Prefix) -> Secret:
        """Return the secret that this call may issue; the same each time."""
        return fresh_secret(prefix, lambda size: self.entropy[_ID : _ID + size])


class File(Struct, frozen=True):
    """A file that the caller saves as `name`."""

    name: str
    media: str
    content: bytes


class Result(Struct, frozen=True):
    """The result of an operation: a value of the type that the row gives, and its headers.

    A `file`, or a `download` that is written piece by piece, is sent instead of a value.
    """

    value: object = None
    etag: str = ""
    next: str = ""
    file: File | None = None
    download: Response | None = None


Run = Callable[[Call], Awaitable[Result]]


class ButtonField(Struct, frozen=True):
    """A field of the confirmation page's form: its choices, if any, and hints by their value."""

    name: str
    label: str
    choices: Sequence[tuple[str, str]] = ()
    hints: Mapping[str, str] = field(default_factory=dict[str, str])


def on(kind: type[T], applies: Callable[[T], bool] = lambda _: True) -> Callable[[object], bool]:
    """Return the test of whether a page about this kind of object offers a button."""
    return lambda shown: isinstance(shown, kind) and applies(shown)


class Button(Struct, frozen=True):
    """A button of the console, and the confirmation page behind it. Texts are translatable.

    `slug` is the last segment of its address; pages have it where `shown_for` returns True for
    what they show. `consequences` are sentences below the text, and `shows_impact` adds how many
    sessions and authorizations end; an `irreversible` one asks to type the name. `carries` is a
    query parameter and the path argument that it becomes; `path_arguments` are those that the
    button decides.
    """

    slug: str
    title: str
    text: str
    done: str
    shown_for: Callable[[object], bool] = lambda _: False
    consequences: Sequence[str] = ()
    shows_impact: bool = False
    danger: bool = False
    irreversible: bool = False
    fields: Sequence[ButtonField] = ()
    carries: tuple[str, str] | None = None
    path_arguments: Mapping[str, str] = field(default_factory=dict[str, str])


class ObjectLink(Struct, frozen=True):
    """A link on the console's page of an object, to a page about it. Its title is translatable.

    An object that has no page in the core, such as an API, is linked wherever a page names it.

    `path` is that of the object, such as `/users/{uid}`, `slug` is the link's id in HTML, and
    `address` names the same argument.
    """

    path: str
    slug: str
    title: str
    address: str

    def to(self, identifier: str | int) -> tuple[str, str, str]:
        """Return slug, title and address of the link on the page of this object."""
        argument = self.path.rpartition("/")[2]
        address = self.address.replace(argument, path_segment(str(identifier)))
        return self.slug, self.title, address


def linked(links: Sequence[ObjectLink], path: str, identifier: str) -> str:
    """Return the URL of the page about this object; "" if no feature has one."""
    return next((link.to(identifier)[2] for link in links if link.path == path), "")


class ListLink(Struct, frozen=True):
    """A link above a list of the console, for roles with the permission.

    `slug` is its id in HTML, the title is translatable.
    """

    slug: str
    title: str
    address: str
    permission: Permission


class Operation(Struct, frozen=True):
    """One operation: a row of the table.

    `input` is the type of the body, `output` that of the result; None for none. One with `upload`
    takes a file instead: an `UploadedFile`. One that `requires_if_match` is refused without the
    ETag of what it changes, which reading it gives where that `returns_etag`. `error_statuses` are
    those beyond what follows from the row, such as 404 for one with arguments in its path. `media`
    are what it answers instead of JSON. `event` is written when something changed.
    `requires_recent_sign_in` holds in the console.
    """

    id: str
    method: str
    path: str
    permission: Permission
    summary: str
    run: Run
    description: str = ""
    input: type[msgspec.Struct] | None = None
    upload: Upload | None = None
    output: object = None
    status: int = 200
    query: Sequence[QueryParameter] = ()
    requires_if_match: bool = False
    returns_etag: bool = False
    returns_list: bool = False
    error_statuses: Sequence[int] = ()
    media: Sequence[str] = ()
    event: type[Event] | None = None
    requires_recent_sign_in: bool = False
    buttons: Sequence[Button] = ()
    commands: Sequence[Command] | None = None

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of the path's arguments."""
        return tuple(segment[1:-1] for segment in self.path.split("/") if segment.startswith("{"))


def call_of(
    services: Services,
    operation: Operation,
    actor: Actor,
    now: Instant,
    arguments: Mapping[str, str] = _NOTHING,
    body: object = None,
    query: Mapping[str, str] = _NOTHING,
) -> Call:
    """Return a call by this actor, with random bytes drawn for it."""
    return Call(services, operation, actor, now, services.random(ENTROPY), arguments, query, body)


async def value_of(call: Call, kind: type[T]) -> T:
    """Run the operation and return its value, which has this type. Raises Refused."""
    result = await call.operation.run(call)
    if not isinstance(result.value, kind):
        raise TypeError(f"{call.operation.id} gives no {kind.__name__}")
    return result.value


def reads(function: Callable[[Transaction, Call], object]) -> Run:
    """Run the function in a read transaction, once the actor's permission is checked."""

    def checked(tx: Transaction, call: Call) -> Result:
        require(tx, call.actor, call.operation.permission)
        return _result(function(tx, call))

    async def run(call: Call) -> Result:
        return await call.services.store.scan(lambda tx: checked(tx, call))

    return run


def writes(function: Callable[[Transaction, Call], object]) -> Run:
    """Run the function in a write transaction, once the actor's permission is checked."""

    def checked(tx: Transaction, call: Call) -> object:
        require(tx, call.actor, call.operation.permission)
        return function(tx, call)

    return unchecked_write(checked)


def unchecked_write(function: Callable[[Transaction, Call], object]) -> Run:
    """Run the function in a write transaction; it checks the permission itself."""

    async def run(call: Call) -> Result:
        return await call.services.store.write(
            lambda tx: _result(function(tx, call)), done_by=call.actor.done_by
        )

    return run


def on_user(
    function: Callable[[Transaction, Call, User], object], *, but_oneself: bool = False
) -> Run:
    """Run the function on the user in the path, locked until the commit.

    Refused: not found; forbidden about a higher role; conflict about oneself, where that is ruled
    out.
    """

    def checked(tx: Transaction, call: Call) -> object:
        user = user_to_change(tx, call.uid, call.actor)
        require(tx, call.actor, call.operation.permission, user)
        # A token acts for its user; the command line is no user.
        if but_oneself and getattr(call.actor, "uid", None) == user.uid:
            raise Refused.because(
                ErrorCode.CONFLICT,
                translatable("this is your own account; ask another user with your role"),
                "admin.self",
            )
        return function(tx, call, user)

    return unchecked_write(checked)


def on_client(function: Callable[[Transaction, Call, Client], object]) -> Run:
    """Run the function on the client in the path, locked until the commit.

    Refused: not found; forbidden about this server's own client.
    """

    def checked(tx: Transaction, call: Call) -> object:
        # First: the role is checked with the actor's own account locked.
        tx.clients.hold_all()
        require(tx, call.actor, call.operation.permission)
        return function(tx, call, client_to_change(tx, call.named("client_id")))

    return unchecked_write(checked)


def _result(value: object) -> Result:
    """Return the result of an operation: False and True say whether it changed anything."""
    if isinstance(value, Result):
        return value
    if isinstance(value, tuple):
        raise InvalidInput(value)  # pyright: ignore[reportUnknownArgumentType]
    return Result(Done(value) if isinstance(value, bool) else value)


CURSOR = "cursor"
"""The query parameter with `next` of the previous page."""

USUAL = 50
MOST = 200
_PLACE = re.compile(r"(0|[1-9][0-9]{0,14})\.([A-Za-z0-9._~-]{1,100})", re.ASCII)

PAGING: Sequence[QueryParameter] = (
    QueryParameter(
        "limit",
        "The maximum number of items.",
        {"type": "integer", "minimum": 1, "maximum": MOST, "default": USUAL},
    ),
    QueryParameter(
        CURSOR,
        "`next` of the previous page.",
        {"type": "string", "pattern": r"^(0|[1-9][0-9]{0,14})\.[A-Za-z0-9._~-]{1,100}$"},
    ),
)


SORT = QueryParameter(
    "sort",
    "The order; a minus sign for descending. Use a cursor only with the order that it is from.",
    {"type": "string", "enum": [order.value for order in ListOrder]},
)


def limit_of(query: Mapping[str, str]) -> int:
    """Return the requested page size."""
    return int(query.get("limit", str(USUAL)))


def place_of(query: Mapping[str, str]) -> TimeCursor:
    """Return the position where the page begins. Raises Refused for a cursor from elsewhere."""
    return place_in(query.get(CURSOR))


def place_in(text: str | None, first: TimeCursor = END) -> TimeCursor:
    """Return the position of a cursor; `first`, where the list begins, for None."""
    if text is None:
        return first
    match = _PLACE.fullmatch(text)
    if match is None:
        raise InvalidInput([MetadataError(CURSOR, "`next` of the previous page")])
    return TimeCursor(Instant(int(match[1])), match[2])


def cursor(position: TimeCursor | None) -> str:
    """Return the cursor of a position; "" for none."""
    return "" if position is None else f"{position.at}.{position.id}"
