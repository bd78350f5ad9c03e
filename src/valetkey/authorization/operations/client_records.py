"""Input and output types of clients in the admin API."""

from collections.abc import Mapping
from typing import Annotated, Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from valetkey.authorization.actions.admin.search import ClientWithUses
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.model.client import (
    LISTS,
    Client,
    ClientType,
    Editor,
    Field,
    FieldType,
    ProfileName,
)
from valetkey.authorization.operations.operation import GRANT_TYPE_ENUM, Moment
from valetkey.authorization.protocol.register.client_metadata import (
    ClientMetadata,
    fields_of,
    with_values,
)
from valetkey.authorization.protocol.register.client_rules import MOST_REDIRECT_URIS
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, matching
from valetkey.authorization.protocol.register.self_registration import LeftOut
from valetkey.authorization.storage.search import ClientLine
from valetkey.kernel.moment import Instant

_SCOPE = Annotated[str, matching(r"^[!#-\[\]-~]{1,100}$", "scope.form", without='" \\')]
_GRANT_TYPE = Annotated[str, msgspec.Meta(extra_json_schema={"enum": GRANT_TYPE_ENUM})]
_FIELDS = fields_of(Editor.ADMINISTRATOR)


def _type_of(field: Field) -> Any:
    """Return the type of a field in a body, with its bounds."""
    rule = field.rule
    line = Annotated[
        str,
        msgspec.Meta(
            pattern=NO_CONTROLS, min_length=rule.shortest or None, max_length=rule.longest
        ),
    ]
    match rule.kind:
        case FieldType.CHOICE:
            return rule.enum or str
        case FieldType.TEXTS:
            return Annotated[list[line], msgspec.Meta(max_length=MOST_REDIRECT_URIS)]
        case FieldType.SCOPES:
            return Annotated[list[_SCOPE], msgspec.Meta(max_length=100)]
        case FieldType.GRANT_TYPES:
            return Annotated[list[_GRANT_TYPE], msgspec.Meta(min_length=1, max_length=20)]
        case FieldType.FLAG:
            return bool
        case FieldType.WHOLE:
            return int | None
        case FieldType.LIFETIME:
            seconds: Any = Annotated[int, msgspec.Meta(ge=1, le=rule.longest)]
            return seconds | None
        case _:
            return line


def value_type(field: Field) -> Any:
    """Return the type of a field without its bounds, as in a response."""
    match field.rule.kind:
        case FieldType.FLAG:
            return bool
        case FieldType.WHOLE | FieldType.LIFETIME:
            return int | None
        case kind:
            return list[str] if kind in LISTS else field.rule.enum or str


def _wanted(field: Field) -> tuple[str, object] | tuple[str, object, object]:
    """Return a field of a new client with its default."""
    kind, enum = field.rule.kind, field.rule.enum
    if field.rule.shortest:
        return field.name, _type_of(field)
    if kind is FieldType.GRANT_TYPES or (enum and not field.default):
        return field.name, _type_of(field) | UnsetType, UNSET
    if kind in LISTS:
        return field.name, _type_of(field), []
    return field.name, _type_of(field), enum(str(field.default)) if enum else field.default


class SecretShown(msgspec.Struct, frozen=True):
    """A client secret, without its value."""

    id: str
    ends_at: Moment | None
    works: bool


class MemberShown(msgspec.Struct, frozen=True):
    """A member of an app's team."""

    uid: int
    role: str


class ClientSummary(msgspec.Struct, frozen=True):
    """A client in a list."""

    client_id: str
    name: str
    type: ClientType
    profile: ProfileName
    grant_types: list[str]
    created_at: Moment
    disabled_at: Moment | None
    verified_at: Moment | None
    self_registered: bool


class ClientList(msgspec.Struct, frozen=True):
    """Clients, newest first. With a search it may be short and still go on."""

    items: list[ClientSummary]
    next: str | None


class ClientState(msgspec.Struct, frozen=True):
    """The state of a client, apart from the fields that an administrator may set."""

    client_id: str
    authentication_method: str
    secrets: list[SecretShown]
    self_registered: bool
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None
    verified_at: Moment | None


ClientShown = msgspec.defstruct(
    "ClientShown",
    [(field.name, value_type(field)) for field in _FIELDS],
    bases=(ClientState,),
    namespace={"__doc__": "A client: everything about it but its secrets."},
    frozen=True,
)


class ClientUse(msgspec.Struct, frozen=True):
    """The team and the users of a client."""

    team: list[MemberShown]
    authorizations: int
    people: int
    requests_with_secret_in_url: int


ClientRead = msgspec.defstruct(
    "ClientRead",
    [("record", ClientShown), ("use", ClientUse)],
    namespace={"__doc__": "A client and its use."},
    frozen=True,
)

ClientMade = msgspec.defstruct(
    "ClientMade",
    [
        ("record", ClientShown),
        ("client_secret", str | None),
        ("left_out", list[LeftOut]),
    ],
    namespace={
        "__doc__": "The current client; a newly generated secret is shown only here."
        "\n\n`left_out` are the values of the request that were not kept, and what would be valid."
    },
    frozen=True,
)

ClientWanted = msgspec.defstruct(
    "ClientWanted",
    [_wanted(field) for field in _FIELDS],
    namespace={
        "__doc__": "A client to register. Omitted members have the defaults of the command line."
        "\n\nThe grants `implicit` and `password` are enabled afterwards, one at a time."
    },
    frozen=True,
    forbid_unknown_fields=True,
)

ClientChange = msgspec.defstruct(
    "ClientChange",
    [(field.name, _type_of(field) | UnsetType, UNSET) for field in _FIELDS],
    namespace={"__doc__": "Changes of a client; omitted fields stay as they are."},
    frozen=True,
    forbid_unknown_fields=True,
)


class SecretWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One more secret; the others work on for so many seconds, or without end for null."""

    others_live: (
        Annotated[
            int,
            msgspec.Meta(
                ge=0,
                le=31_536_000,
                description="Seconds for which the other secrets still work.",
            ),
        ]
        | None
    ) = 86_400


class NewSecret(msgspec.Struct, frozen=True):
    """A new secret, shown this once."""

    client_secret: str


def summary(line: ClientLine) -> ClientSummary:
    """Return the client as it appears in a list."""
    return ClientSummary(
        line.id,
        line.name,
        line.type,
        line.profile,
        list(line.grant_types),
        line.created_at,
        line.disabled_at,
        line.verified_at,
        line.self_registered,
    )


def shown(client: Client, now: Instant) -> msgspec.Struct:
    """Return the client as the API shows it, a `ClientShown`."""
    metadata = metadata_of(client)
    record = {
        "client_id": client.id,
        **{field.name: field.value_of(metadata) for field in _FIELDS},
        "authentication_method": client.authentication_method,
        "secrets": [SecretShown(s.id, s.expires_at, s.is_live(now)) for s in client.secrets],
        "self_registered": client.self_registered,
        "created_at": client.created_at,
        "changed_at": client.changed_at,
        "disabled_at": client.disabled_at,
        "verified_at": client.verified_at,
    }
    return ClientShown(**record)


def read(held: ClientWithUses, record: msgspec.Struct) -> msgspec.Struct:
    """Return a client's record with its team and use, a `ClientRead`."""
    use = ClientUse(
        [MemberShown(one.uid, one.role.value) for one in held.team],
        held.authorizations,
        held.people,
        0 if held.sighting is None else held.sighting.requests,
    )
    return ClientRead(record, use)


class LocalRegistration(Struct, frozen=True):
    """A client that command line or console registers, with every field and its client_id."""

    metadata: ClientMetadata
    client_id: str = ""


class LocalChange(Struct, frozen=True):
    """Changes that the command line makes to a client, by the names of the fields."""

    values: Mapping[str, object]


def wanted_metadata(body: object) -> ClientMetadata:
    """Return the metadata of a `ClientWanted` or a `LocalRegistration`."""
    if isinstance(body, LocalRegistration):
        return body.metadata
    return with_values(ClientMetadata(name=""), declared_values(body))


def changed_metadata(client: Client, change: object) -> ClientMetadata:
    """Return the client's metadata after a `ClientChange` or a `LocalChange`."""
    values = change.values if isinstance(change, LocalChange) else declared_values(change)
    return with_values(metadata_of(client), values)


def with_changes(metadata: ClientMetadata, change: object) -> ClientMetadata:
    """Return the metadata with the values of a `ClientChange`."""
    return with_values(metadata, declared_values(change))


def declared_values(body: object) -> Mapping[str, object]:
    """Return the values of the fields that the input has."""
    members = cast("msgspec.Struct", body)
    values = ((name, getattr(members, name)) for name in members.__struct_fields__)
    return {name: _plain(value) for name, value in values if value is not UNSET}


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(str(item) for item in cast("list[object]", value))
    return str(value) if isinstance(value, str) else value
