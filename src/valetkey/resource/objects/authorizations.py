"""authorizations: what the user let apps do; each can be read and ended, none can be made here."""

from dataclasses import dataclass

from valetkey.resource.resource_object import Home, ResourceObject, Verb


@dataclass(frozen=True, slots=True)
class Authorization:
    """Nothing of it can be written."""


OBJECT = ResourceObject(
    "authorizations",
    Authorization,
    frozenset({Verb.LIST, Verb.READ, Verb.DELETE}),
    reads="see which apps you gave access",
    writes="end the access of apps",
    home=Home.ISSUER,
)
