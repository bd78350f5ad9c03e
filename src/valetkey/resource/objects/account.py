"""account: the user's own record, kept by the authorization server."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from valetkey.resource.resource_object import Home, ResourceObject, Verb


@dataclass(frozen=True, slots=True)
class Account:
    """What an app may change of it."""

    name: Annotated[str, Meta(min_length=1, max_length=200, examples=["Ada Lovelace"])]


OBJECT = ResourceObject(
    "account",
    Account,
    frozenset({Verb.READ, Verb.REPLACE, Verb.CHANGE}),
    reads="read your name and e-mail address",
    writes="change your name",
    home=Home.ISSUER,
    singleton=True,
    shows={
        "uid": {"type": "integer", "examples": [4711]},
        "username": {"type": "string", "examples": ["ada"]},
        "name": {"type": "string", "examples": ["Ada Lovelace"]},
        "email": {"type": "string", "examples": ["ada@example.com"]},
        "email_verified": {"type": "boolean"},
        "created_at": {"type": "integer", "description": "Seconds since 1970, UTC."},
    },
)
