"""Clients, as the admin API shows and takes them."""

from dataclasses import replace
from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.admin.clients import Held
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.grant_types import RULES
from valetkey.authorization.model.register.client import (
    AccessTokenFormat,
    ApplicationType,
    Client,
    ClientType,
    GrantTypeName,
)
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.operations.records import NO_CONTROLS, Line, Moment
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, fitted
from valetkey.authorization.storage.administration.client_search import ClientLine
from valetkey.kernel.moment import Instant, Lifetime

_Name = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, min_length=1, max_length=80)]
_Address = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=2_000)]
_Addresses = Annotated[list[_Address], msgspec.Meta(max_length=20)]
_Scopes = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=r"^[!#-\[\]-~]{1,100}$")]],
    msgspec.Meta(max_length=100),
]
_GrantType = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(RULES)})]
_GrantTypes = Annotated[list[_GrantType], msgspec.Meta(min_length=1, max_length=len(RULES))]
_TokenLifetime = Annotated[int, msgspec.Meta(ge=1, le=86_400)]


class SecretShown(msgspec.Struct, frozen=True):
    """One of a client's secrets, without the secret itself."""

    id: str
    ends_at: Moment | None
    works: bool


class MemberShown(msgspec.Struct, frozen=True):
    """Somebody in the team of an app."""

    uid: int
    role: str


class ClientSummary(msgspec.Struct, frozen=True):
    """What a list says of a client."""

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


class ClientShown(msgspec.Struct, frozen=True):
    """A client: everything about it but its secrets."""

    client_id: str
    name: str
    description: str
    type: ClientType
    application_type: ApplicationType
    profile: ProfileName
    access_token_format: AccessTokenFormat
    access_token_lifetime: int | None
    authentication_method: str
    redirect_uris: list[str]
    grant_types: list[str]
    scopes: list[str]
    default_scopes: list[str]
    required_scopes: list[str]
    requires_pkce: bool
    rotates_refresh_token: bool
    ends_with_session: bool
    logo_uri: str
    policy_uri: str
    tos_uri: str
    secrets: list[SecretShown]
    self_registered: bool
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None
    verified_at: Moment | None


class ClientUse(msgspec.Struct, frozen=True):
    """Who has a client, and who uses it."""

    team: list[MemberShown]
    authorizations: int
    people: int
    requests_with_secret_in_url: int


class ClientRead(msgspec.Struct, frozen=True):
    """A client, and what hangs on it."""

    record: ClientShown
    use: ClientUse


class ClientMade(msgspec.Struct, frozen=True):
    """A client as it is now; a secret that was made for it is shown this once."""

    record: ClientShown
    client_secret: str | None


class ClientWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client to be registered. What is not said is as the command line would have it.

    The grants `implicit` and `password` are switched on by themselves, afterwards.
    """

    name: _Name
    description: Line = ""
    redirect_uris: _Addresses = []
    grant_types: _GrantTypes | UnsetType = UNSET
    scopes: _Scopes = []
    default_scopes: _Scopes = []
    required_scopes: _Scopes = []
    profile: ProfileName | UnsetType = UNSET
    type: ClientType = ClientType.CONFIDENTIAL
    application_type: ApplicationType = ApplicationType.WEB
    access_token_format: AccessTokenFormat = AccessTokenFormat.JWT
    access_token_lifetime: _TokenLifetime | None = None
    requires_pkce: bool = False
    rotates_refresh_token: bool = False
    ends_with_session: bool = False
    logo_uri: _Address = ""
    policy_uri: _Address = ""
    tos_uri: _Address = ""


class ClientChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client shall have; what is not said stays as it is."""

    name: _Name | UnsetType = UNSET
    description: Line | UnsetType = UNSET
    redirect_uris: _Addresses | UnsetType = UNSET
    grant_types: _GrantTypes | UnsetType = UNSET
    scopes: _Scopes | UnsetType = UNSET
    default_scopes: _Scopes | UnsetType = UNSET
    required_scopes: _Scopes | UnsetType = UNSET
    profile: ProfileName | UnsetType = UNSET
    type: ClientType | UnsetType = UNSET
    application_type: ApplicationType | UnsetType = UNSET
    access_token_format: AccessTokenFormat | UnsetType = UNSET
    access_token_lifetime: _TokenLifetime | UnsetType | None = UNSET
    requires_pkce: bool | UnsetType = UNSET
    rotates_refresh_token: bool | UnsetType = UNSET
    ends_with_session: bool | UnsetType = UNSET
    logo_uri: _Address | UnsetType = UNSET
    policy_uri: _Address | UnsetType = UNSET
    tos_uri: _Address | UnsetType = UNSET


class SecretWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One more secret; the others work on for so many seconds, or without end for null."""

    others_live: Annotated[int, msgspec.Meta(ge=0, le=31_536_000)] | None = 86_400


class SecretMade(msgspec.Struct, frozen=True):
    """A new secret, shown this once."""

    client_secret: str


def summary(line: ClientLine) -> ClientSummary:
    """As a list says it."""
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


def shown(client: Client, now: Instant) -> ClientShown:
    """As the API shows it."""
    return ClientShown(
        client_id=client.id,
        name=client.name,
        description=client.description,
        type=client.type,
        application_type=client.application_type,
        profile=client.profile_name,
        access_token_format=client.access_token_format,
        access_token_lifetime=client.access_token_lifetime,
        authentication_method=client.authentication_method.value,
        redirect_uris=list(client.redirect_uris),
        grant_types=sorted(client.grant_types),
        scopes=list(client.scope.names),
        default_scopes=list(client.default_scope.names),
        required_scopes=list(client.required_scope.names),
        requires_pkce=client.requires_pkce,
        rotates_refresh_token=client.rotates_refresh_token,
        ends_with_session=client.ends_with_session,
        logo_uri=client.logo_uri,
        policy_uri=client.policy_uri,
        tos_uri=client.tos_uri,
        secrets=[SecretShown(s.id, s.expires_at, s.is_live(now)) for s in client.secrets],
        self_registered=client.self_registered,
        created_at=client.created_at,
        changed_at=client.changed_at,
        disabled_at=client.disabled_at,
        verified_at=client.verified_at,
    )


def read(held: Held, now: Instant) -> ClientRead:
    """The same with what hangs on it."""
    return ClientRead(
        shown(held.client, now),
        ClientUse(
            [MemberShown(one.uid, one.role.value) for one in held.team],
            held.authorizations,
            held.people,
            0 if held.sighting is None else held.sighting.requests,
        ),
    )


def wanted_metadata(wanted: ClientWanted) -> ClientMetadata:
    """What is to be registered."""
    lifetime = wanted.access_token_lifetime
    return ClientMetadata(
        name=wanted.name,
        description=wanted.description,
        redirect_uris=tuple(wanted.redirect_uris),
        grant_types=_grant_types(wanted.grant_types),
        scopes=tuple(wanted.scopes),
        default_scopes=tuple(wanted.default_scopes),
        required_scopes=tuple(wanted.required_scopes),
        profile="" if isinstance(wanted.profile, UnsetType) else wanted.profile.value,
        type=wanted.type.value,
        application_type=wanted.application_type.value,
        access_token_format=wanted.access_token_format.value,
        access_token_lifetime=None if lifetime is None else Lifetime(lifetime),
        requires_pkce=wanted.requires_pkce,
        rotates_refresh_token=wanted.rotates_refresh_token,
        ends_with_session=wanted.ends_with_session,
        logo_uri=wanted.logo_uri,
        policy_uri=wanted.policy_uri,
        tos_uri=wanted.tos_uri,
    )


def _grant_types(wanted: list[str] | UnsetType) -> tuple[str, ...]:
    usual = (GrantTypeName.AUTHORIZATION_CODE.value, GrantTypeName.REFRESH_TOKEN.value)
    return usual if isinstance(wanted, UnsetType) else tuple(wanted)


def changed_metadata(client: Client, change: ClientChange) -> ClientMetadata:
    """What the client is to be."""
    said: dict[str, object] = {}
    for name in change.__struct_fields__:
        value: object = getattr(change, name)
        if isinstance(value, UnsetType):
            continue
        said[name] = _plain(value)
    return fitted(replace(metadata_of(client), **said), said)  # type: ignore[arg-type]


def _plain(value: object) -> object:
    if isinstance(value, list):
        return tuple(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return str(value) if isinstance(value, str) else value
