"""The objects that the authorization server keeps: account, authorizations and client."""

from dataclasses import dataclass, field
from typing import Annotated, Literal, get_type_hints

from msgspec import UNSET, Meta, UnsetType

from valetkey.kernel.shapes import MUST
from valetkey.resource.resource_object import Backend, OwnedBy, ResourceObject, Verb

_LONGEST = 200
_LINK = r"^$|^https://[A-Za-z0-9]"

_Part = Literal["formatted", "street_address", "locality", "region", "postal_code", "country"]
_Name = Annotated[str, Meta(max_length=_LONGEST)]
_Link = Annotated[
    str,
    Meta(
        max_length=2_000,
        pattern=_LINK,
        examples=["https://ada.example/"],
        extra={MUST: "must be empty or an https address, such as https://ada.example/"},
    ),
]


@dataclass(frozen=True, slots=True)
class Account:
    """The fields of an account that an app may change: name and the OpenID Connect claims.

    An empty value clears the claim.
    """

    name: Annotated[str, Meta(min_length=1, max_length=_LONGEST, examples=["Ada Lovelace"])]
    given_name: _Name = ""
    family_name: _Name = ""
    middle_name: _Name = ""
    nickname: _Name = ""
    profile: _Link = ""
    picture: _Link = ""
    website: _Link = ""
    gender: _Name = ""
    birthdate: Annotated[
        str,
        Meta(
            pattern=r"^$|^[0-9]{4}(-[0-9]{2}-[0-9]{2})?$",
            examples=["1815-12-10"],
            description="YYYY-MM-DD, YYYY, or 0000-MM-DD without the year.",
            extra={MUST: "must be YYYY-MM-DD, YYYY, or 0000-MM-DD without the year"},
        ),
    ] = ""
    zoneinfo: Annotated[str, Meta(max_length=_LONGEST, examples=["Europe/London"])] = ""
    locale: Annotated[
        str,
        Meta(
            pattern=r"^$|^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}$",
            examples=["en-GB"],
            extra={MUST: "must be a language tag, such as en or de-AT"},
        ),
    ] = ""
    phone_number: Annotated[
        str,
        Meta(
            pattern=r"^$|^\+[1-9][0-9]{4,14}$",
            examples=["+442079460000"],
            extra={MUST: "must be an international number, such as +442079460000"},
        ),
    ] = ""
    address: Annotated[
        dict[_Part, Annotated[str, Meta(max_length=1_000)]],
        Meta(examples=[{"locality": "London", "country": "UK"}]),
    ] = field(default_factory=dict[_Part, str])


def _shown(kind: object) -> dict[str, object]:
    """Return the schema of a text as it is shown, with the examples that its field declares."""
    for annotation in getattr(kind, "__metadata__", ()):
        if isinstance(annotation, Meta) and annotation.examples:
            return {"type": "string", "examples": list(annotation.examples)}
    return {"type": "string"}


ACCOUNT = ResourceObject(
    "account",
    Account,
    frozenset({Verb.READ, Verb.REPLACE, Verb.CHANGE}),
    reads="read your name, addresses, phone number and profile",
    writes="change your name, address, phone number and profile",
    home=Backend.ISSUER,
    singleton=True,
    shows={
        "uid": {"type": "integer", "examples": [4711]},
        "username": {"type": "string", "examples": ["ada"]},
        "name": {"type": "string", "examples": ["Ada Lovelace"]},
        "email": {"type": "string", "examples": ["ada@example.com"]},
        "email_verified": {"type": "boolean"},
        **{
            name: _shown(kind)
            for name, kind in get_type_hints(Account, include_extras=True).items()
            if name not in {"name", "address"}
        },
        "phone_number_verified": {"type": "boolean"},
        "address": {"type": "object", "additionalProperties": {"type": "string"}},
        "created_at": {"type": "integer", "description": "Seconds since 1970, UTC."},
    },
)


@dataclass(frozen=True, slots=True)
class Authorization:
    """The writable fields of an authorization: none."""


AUTHORIZATIONS = ResourceObject(
    "authorizations",
    Authorization,
    frozenset({Verb.LIST, Verb.READ, Verb.DELETE}),
    reads="see which apps have access to your account",
    writes="revoke the access of apps",
    home=Backend.ISSUER,
    newest=1_000,
    shows={
        "id": {"type": "string", "examples": ["gr_9f8Hc2"]},
        "client_id": {"type": "string", "examples": ["notes-printer"]},
        "client_name": {"type": "string", "examples": ["Notes Printer"]},
        "scope": {"type": "string", "examples": ["notes:read"]},
        "apis": {
            "type": "array",
            "description": "Which names of scope are for which API, other than this one.",
            "items": {
                "type": "object",
                "properties": {
                    name: {"type": "string"} for name in ("identifier", "name", "scope")
                },
            },
        },
        "created_at": {"type": "integer", "description": "Seconds since 1970, UTC."},
        "last_used_at": {"type": ["integer", "null"]},
        "expires_at": {"type": ["integer", "null"]},
    },
)


# Empty if the client has none, so that a record can be written back as it was read.
_Uri = Annotated[str, Meta(max_length=2_000, examples=["https://app.example/callback"])]
_Uris = Annotated[tuple[_Uri, ...], Meta(max_length=100)]


@dataclass(frozen=True, slots=True)
class Client:
    """The fields of a client that it may change; `redirect_uri` is the first of `redirect_uris`."""

    description: Annotated[str, Meta(max_length=1_000, examples=["Prints your notes"])] = ""
    redirect_uri: _Uri | UnsetType = UNSET
    redirect_uris: _Uris | UnsetType = UNSET


CLIENT = ResourceObject(
    "client",
    Client,
    frozenset({Verb.READ, Verb.REPLACE, Verb.CHANGE}),
    reads="read the app's own registration",
    writes="change the app's own registration",
    owned_by=OwnedBy.CLIENT,
    home=Backend.ISSUER,
    singleton=True,
    either=(frozenset({"redirect_uri", "redirect_uris"}),),
    shows={
        "client_id": {"type": "string", "examples": ["notes-printer"]},
        "name": {"type": "string", "examples": ["Notes Printer"]},
        "description": {"type": "string", "examples": ["Prints your notes"]},
        "redirect_uri": {"type": "string", "examples": ["https://app.example/callback"]},
        "redirect_uris": {"type": "array", "items": {"type": "string"}},
        "grant_types": {"type": "array", "items": {"type": "string"}},
        "scope": {"type": "string", "examples": ["client:read client:write"]},
        "created_at": {"type": "integer", "description": "Seconds since 1970, UTC."},
    },
)
