"""Input and output types of APIs in the admin API, derived from the declared fields."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.model.register.api import API_FIELDS, Api, ApiField, ApiMetadata
from valetkey.authorization.model.register.client import AccessTokenFormat, Client
from valetkey.authorization.operations.client_records import SecretShown
from valetkey.authorization.operations.records import Moment
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.replace import replace

ANY: Final = "any"
"""The text with which interfaces state that every client may request an API."""


def _type_of(field: ApiField) -> Any:
    """Return the type of a field in a body, with its bounds."""
    rule = field.rule
    line: Any = Annotated[
        str,
        msgspec.Meta(
            pattern=NO_CONTROLS, min_length=rule.shortest or None, max_length=rule.longest
        ),
    ]
    name: Any = Annotated[str, msgspec.Meta(pattern=f"^{rule.pattern}$")]
    described = {"description": rule.description} if rule.description else None
    listed = msgspec.Meta(max_length=rule.most, extra_json_schema=described)
    if field.type is str:
        return line
    if field.type == Mapping[str, str]:
        return Annotated[dict[name, line], listed]
    if field.type in (tuple[str, ...], frozenset[str] | None):
        return Annotated[list[name], listed]
    if field.type == Lifetime | None:
        seconds: Any = Annotated[int, msgspec.Meta(ge=1, le=rule.longest)]
        return seconds | None
    return AccessTokenFormat if field.type == AccessTokenFormat | None else field.type


def _shown_type(field: ApiField) -> Any:
    """Return the type of a field in a response."""
    if field.type == Lifetime | None:
        return int | None
    if field.type == Mapping[str, str]:
        return dict[str, str]
    if field.type in (tuple[str, ...], frozenset[str] | None):
        return list[str]
    return AccessTokenFormat if field.type == AccessTokenFormat | None else field.type


def _wanted(field: ApiField) -> tuple[str, object] | tuple[str, object, object]:
    """Return a field of a new API with its default."""
    kind = _type_of(field)
    if field.rule.shortest and field.type is str:
        return field.name, kind
    if field.type == frozenset[str] | None:
        return field.name, kind | UnsetType, UNSET
    is_list = field.type == tuple[str, ...]
    return field.name, kind, list[str]() if is_list else field.default


class ApiState(msgspec.Struct, frozen=True):
    """The state of an API, apart from what is declared."""

    api_id: str
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None


ApiShown = msgspec.defstruct(
    "ApiShown",
    [(field.name, _shown_type(field)) for field in API_FIELDS.values()],
    bases=(ApiState,),
    namespace={"__doc__": "An API: everything about it but its secrets."},
    frozen=True,
)

ApiRead = msgspec.defstruct(
    "ApiRead",
    [("record", ApiShown), ("secrets", list[SecretShown])],
    namespace={
        "__doc__": "An API and its secrets for introspection, without the secrets themselves."
    },
    frozen=True,
)

_Items: Any = list[ApiShown]  # type: ignore[valid-type]
ApiList = msgspec.defstruct(
    "ApiList",
    [("items", _Items), ("next", str | None)],
    namespace={"__doc__": "APIs by identifier."},
    frozen=True,
)

ApiWanted = msgspec.defstruct(
    "ApiWanted",
    [_wanted(field) for field in API_FIELDS.values()],
    namespace={
        "__doc__": "An API to be declared. Without a lifetime its tokens live as long as others."
    },
    frozen=True,
    forbid_unknown_fields=True,
)

ApiChange = msgspec.defstruct(
    "ApiChange",
    [
        (field.name, _type_of(field) | UnsetType, UNSET)
        for field in API_FIELDS.values()
        if not field.rule.is_fixed
    ],
    namespace={"__doc__": "Changes of an API; omitted fields stay as they are."},
    frozen=True,
    forbid_unknown_fields=True,
)


def shown(api: Api) -> msgspec.Struct:
    """Return the API as interfaces show it, an `ApiShown`."""
    state = {
        "api_id": api.id,
        "created_at": api.created_at,
        "changed_at": api.changed_at,
        "disabled_at": api.disabled_at,
    }
    return ApiShown(**state, **{name: _plain(getattr(api, name), name) for name in API_FIELDS})


def _plain(value: object, name: str) -> object:
    """Return a value as members have it; a list without an end is `any`."""
    match value:
        case tuple():
            return list(cast("tuple[str, ...]", value))
        case frozenset():
            return sorted(cast("frozenset[str]", value))
        case Mapping():
            return dict(cast("Mapping[str, str]", value))
        case None if API_FIELDS[name].type == frozenset[str] | None:
            return [ANY]
        case _:
            return value


def secrets_shown(credential: Client | None, now: Instant) -> list[SecretShown]:
    """Return the secrets of the API's credential."""
    secrets = () if credential is None else credential.secrets
    return [SecretShown(each.id, each.expires_at, each.is_live(now)) for each in secrets]


def changed_metadata(before: ApiMetadata, change: object) -> ApiMetadata:
    """Return `before` with the values of an `ApiWanted` or an `ApiChange`."""
    body = cast("msgspec.Struct", change)
    given = {name: getattr(body, name) for name in body.__struct_fields__}
    values = {name: _declared(each, name) for name, each in given.items() if each is not UNSET}
    return replace(before, **values)


def _declared(value: object, name: str) -> Any:
    if not isinstance(value, list):
        return value
    texts = cast("list[str]", value)
    if API_FIELDS[name].type == frozenset[str] | None:
        return None if ANY in texts else frozenset(texts)
    return tuple(texts)
