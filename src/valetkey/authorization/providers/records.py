"""Input and output types of sign-in providers."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.admin import providers
from valetkey.authorization.operations.records import Moment
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.config.sections.federation import LONGEST, MOST_KEPT, ProviderKind


def _text(longest: int, description: str) -> msgspec.Meta:
    return msgspec.Meta(pattern=NO_CONTROLS, max_length=longest, description=description)


_Id = Annotated[str, _text(31, "Part of the redirect URI: lower-case letters, digits and hyphens.")]
_Label = Annotated[str, _text(60, "The label of the button.")]
_Issuer = Annotated[
    str, _text(LONGEST, "The issuer of an OpenID provider; the address of GitHub Enterprise.")
]
_ClientId = Annotated[str, _text(LONGEST, "The client ID that the provider issued.")]
_Secret = Annotated[
    str, _text(providers.LONGEST_SECRET, "The client secret that the provider issued.")
]
_Names = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=200)]],
    msgspec.Meta(max_length=MOST_KEPT),
]
_Scopes = Annotated[
    _Names, msgspec.Meta(extra_json_schema={"description": "Scopes beyond those for identity."})
]
_KeepClaims = Annotated[
    _Names,
    msgspec.Meta(
        extra_json_schema={"description": "Claims of the provider to store, for declared claims."}
    ),
]
_SignUp = Annotated[
    bool,
    msgspec.Meta(
        extra_json_schema={"description": "Whether new users may sign up with it, where allowed."}
    ),
]


class ProviderWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Input for a sign-in provider."""

    id: _Id
    name: _Label
    client_id: _ClientId
    client_secret: _Secret
    issuer: _Issuer = ""
    kind: ProviderKind = ProviderKind.OPENID
    scopes: _Scopes = []
    keep_claims: _KeepClaims = []
    sign_up: _SignUp = True


class ProviderChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a sign-in provider; an empty client secret keeps the stored one."""

    name: _Label | UnsetType = UNSET
    client_id: _ClientId | UnsetType = UNSET
    client_secret: _Secret | UnsetType = UNSET
    scopes: _Scopes | UnsetType = UNSET
    keep_claims: _KeepClaims | UnsetType = UNSET
    sign_up: _SignUp | UnsetType = UNSET


class ProviderShown(msgspec.Struct, frozen=True):
    """A sign-in provider, without its client secret.

    `origin` is `file` for one of the configuration file, which is changed there. `state` is
    `hidden` if the configuration file has one with the same id or issuer, which is used instead.
    """

    id: str
    name: str
    kind: ProviderKind
    issuer: str
    client_id: str
    redirect_uri: str
    scopes: list[str]
    keep_claims: list[str]
    sign_up: bool
    origin: Literal["file", "stored"]
    state: Literal["enabled", "disabled", "hidden"]
    created_at: Moment | None = None


class ProviderList(msgspec.Struct, frozen=True):
    """Sign-in providers: those of the configuration file, then the others, oldest first."""

    items: list[ProviderShown]
    next: str | None = None


class ProviderTested(msgspec.Struct, frozen=True):
    """The result of a test; `check` is the check that failed, `received` what came back."""

    works: bool
    check: str
    received: str
