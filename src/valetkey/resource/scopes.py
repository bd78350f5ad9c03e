"""The scopes of this API, and the sentence users read about each."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from valetkey.config.settings import Settings
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared import objects_of
from valetkey.resource.resource_object import OwnedBy, ResourceObject


def scopes_of(settings: Settings) -> Mapping[str, str]:
    """Return the scopes of all objects, also of declared ones, or of the operator's own API.

    Scopes of objects that belong to clients have the sentence "": users are not asked for them.

    Raises OperatorErrors if a file in the directory of objects is invalid.
    """
    if not settings.resource.enabled:
        return MappingProxyType(dict(settings.resource.scopes))
    return MappingProxyType(dict(_sentences(objects_of(settings))))


def _sentences(objects: Iterable[ResourceObject]) -> Iterator[tuple[str, str]]:
    yield "read", "read all your data"
    yield "write", "change all your data"
    for kind in objects:
        is_consented = kind.owned_by is OwnedBy.USER
        yield f"{kind.name}:read", kind.reads if is_consented else ""
        if kind.writes:
            yield f"{kind.name}:write", kind.writes if is_consented else ""


SCOPES: Mapping[str, str] = MappingProxyType(dict(_sentences(OBJECTS)))
"""Valetkey's own scopes. Each sentence starts with a verb: "Notes Printer wants to …"."""
