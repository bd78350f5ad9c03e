"""Scopes: every name that this API asks for, and the sentence that people read about it."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from valetkey.resource.objects import OBJECTS


def _sentences() -> Iterator[tuple[str, str]]:
    yield "read", "read all your data"
    yield "write", "change all your data"
    for each in OBJECTS:
        yield f"{each.name}:read", each.reads
        if each.writes:
            yield f"{each.name}:write", each.writes


SCOPES: Mapping[str, str] = MappingProxyType(dict(_sentences()))
"""Each sentence starts with a verb: "Notes Printer wants to …"."""
