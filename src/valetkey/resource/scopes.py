"""Scopes: every name that this API asks for, and the sentence that people read about it."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from valetkey.config.settings import Settings
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared.directory import objects_of
from valetkey.resource.resource_object import ResourceObject


def scopes_of(settings: Settings) -> Mapping[str, str]:
    """The scopes of all objects, those that the settings declare included.

    Raises Mistakes where a file in the directory of objects declares none.
    """
    return MappingProxyType(dict(_sentences(objects_of(settings))))


def _sentences(objects: Iterable[ResourceObject]) -> Iterator[tuple[str, str]]:
    yield "read", "read all your data"
    yield "write", "change all your data"
    for each in objects:
        yield f"{each.name}:read", each.reads
        if each.writes:
            yield f"{each.name}:write", each.writes


SCOPES: Mapping[str, str] = MappingProxyType(dict(_sentences(OBJECTS)))
"""Those that come with Valetkey. Each starts with a verb: "Notes Printer wants to …"."""
