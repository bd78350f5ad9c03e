"""Input and output types of APIs in the admin API."""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.apis import (
    LONGEST_LIFETIME,
    MOST_REQUIRED,
    MOST_ROLES,
    MOST_SCOPES,
    ROLE_NAME,
    ApiMetadata,
)
from valetkey.authorization.model.account.scim import NAME
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import AccessTokenFormat, Client
from valetkey.authorization.operations.client_records import SecretShown
from valetkey.authorization.operations.records import Moment
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

ANY: Final = "any"
"""The text with which interfaces state that every client may request an API."""

_Identifier = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=500)]
_Name = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=80)]
_ScopeName = Annotated[str, msgspec.Meta(pattern=r"^[!$-\[\]-~]{1,100}$")]
_Sentence = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=200)]
_Scopes = Annotated[dict[_ScopeName, _Sentence], msgspec.Meta(max_length=MOST_SCOPES)]
_MachineScopes = Annotated[list[_ScopeName], msgspec.Meta(max_length=MOST_SCOPES)]
_Roles = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=f"^{ROLE_NAME}$")]],
    msgspec.Meta(max_length=MOST_ROLES),
]
_RequiredGroups = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=f"^{NAME}$")]],
    msgspec.Meta(
        max_length=MOST_REQUIRED,
        extra_json_schema={"description": "Only members of one of them get tokens for it."},
    ),
]
_Lifetime = Annotated[int, msgspec.Meta(ge=1, le=LONGEST_LIFETIME)]
_ClientIds = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,100}$")]],
    msgspec.Meta(
        max_length=1_000,
        extra_json_schema={"description": "Apps that may request it: client ids, or `any`."},
    ),
]


class ApiShown(msgspec.Struct, frozen=True):
    """An API: everything about it but its secrets."""

    api_id: str
    identifier: str
    name: str
    scopes: dict[str, str]
    machine_scopes: list[str]
    access_token_format: AccessTokenFormat
    access_token_lifetime: int | None
    signing_algorithm: Algorithm
    clients: list[str]
    shares_scopes: bool
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None
    roles: list[str] = []
    required_groups: list[str] = []


class ApiRead(msgspec.Struct, frozen=True):
    """An API and its secrets for introspection, without the secrets themselves."""

    record: ApiShown
    secrets: list[SecretShown]


class ApiList(msgspec.Struct, frozen=True):
    """APIs by identifier."""

    items: list[ApiShown]
    next: str | None


class ApiWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An API to be declared. Without a lifetime its tokens live as long as others."""

    identifier: _Identifier
    name: _Name
    scopes: _Scopes = {}
    machine_scopes: _MachineScopes = []
    access_token_format: AccessTokenFormat = AccessTokenFormat.JWT
    access_token_lifetime: _Lifetime | None = None
    signing_algorithm: Algorithm = Algorithm.ES256
    clients: _ClientIds | UnsetType = UNSET
    shares_scopes: bool = False
    roles: _Roles = []
    required_groups: _RequiredGroups = []


ApiChange = msgspec.defstruct(
    "ApiChange",
    [
        (each.name, each.type | UnsetType, UNSET)
        for each in msgspec.structs.fields(ApiWanted)
        if each.name != "identifier"
    ],
    namespace={"__doc__": "Changes of an API; omitted fields stay as they are."},
    frozen=True,
    forbid_unknown_fields=True,
)


def shown(api: Api) -> ApiShown:
    """Return the API as interfaces show it."""
    return ApiShown(
        api_id=api.id,
        identifier=api.identifier,
        name=api.name,
        scopes=dict(api.scopes),
        machine_scopes=list(api.machine_scope),
        access_token_format=api.access_token_format or AccessTokenFormat.JWT,
        access_token_lifetime=api.access_token_lifetime,
        signing_algorithm=api.signing_algorithm,
        clients=[ANY] if api.clients is None else sorted(api.clients),
        shares_scopes=api.shares_scopes,
        created_at=api.created_at,
        changed_at=api.changed_at,
        disabled_at=api.disabled_at,
        roles=list(api.roles),
        required_groups=list(api.required_groups),
    )


def secrets_shown(credential: Client | None, now: Instant) -> list[SecretShown]:
    """Return the secrets of the API's credential."""
    secrets = () if credential is None else credential.secrets
    return [SecretShown(each.id, each.expires_at, each.is_live(now)) for each in secrets]


def wanted_metadata(wanted: ApiWanted) -> ApiMetadata:
    """Return the metadata that this declares."""
    return changed_metadata(ApiMetadata(wanted.identifier), wanted)


def changed_metadata(before: ApiMetadata, change: msgspec.Struct) -> ApiMetadata:
    """Return `before` with the change applied."""
    said = {name: getattr(change, name) for name in change.__struct_fields__}
    said = {name: value for name, value in said.items() if value is not UNSET}
    for name in ("machine_scopes", "roles", "required_groups"):
        if name in said:
            said[name] = tuple(said[name])
    if "clients" in said:
        said["clients"] = None if ANY in said["clients"] else tuple(said["clients"])
    for name in ("access_token_format", "signing_algorithm"):
        if name in said:
            said[name] = said[name].value
    return replace(before, **said)
