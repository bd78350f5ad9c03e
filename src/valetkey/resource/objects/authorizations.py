"""authorizations: apps that a user authorized; they can be read and revoked, not created."""

from dataclasses import dataclass

from valetkey.resource.resource_object import Backend, ResourceObject, Verb


@dataclass(frozen=True, slots=True)
class Authorization:
    """The writable fields of an authorization: none."""


OBJECT = ResourceObject(
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
