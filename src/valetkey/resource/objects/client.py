"""client: a client's own registration, read and changed with its own credentials."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from valetkey.resource.resource_object import Backend, OwnedBy, ResourceObject, Verb

# Empty if the client has none, so that a record can be written back as it was read.
_Uri = Annotated[str, Meta(max_length=2_000, examples=["https://app.example/callback"])]
_Uris = Annotated[tuple[_Uri, ...], Meta(max_length=100)]


@dataclass(frozen=True, slots=True)
class Client:
    """The fields of a client that it may change; `redirect_uri` is the first of `redirect_uris`."""

    description: Annotated[str, Meta(max_length=1_000, examples=["Prints your notes"])] = ""
    redirect_uri: _Uri | UnsetType = UNSET
    redirect_uris: _Uris | UnsetType = UNSET


OBJECT = ResourceObject(
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
