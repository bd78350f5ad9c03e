"""Reduce what a program registers to what can be kept (RFC 7591 section 2).

The declaration of each field says whether it is reduced: `FieldRule.unusable`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import cast

from msgspec import Struct

from valetkey.authorization.model.register.fields import LISTS, Field, UnusableValue
from valetkey.authorization.protocol.register.client_metadata import (
    FIELDS,
    ClientMetadata,
    with_values,
)
from valetkey.authorization.protocol.register.faults import MetadataError

Faults = tuple[MetadataError, ...]


class LeftOut(Struct, frozen=True):
    """A value that was not kept, and what would be valid."""

    field: str
    value: str
    detail: str


class Reduced(Struct, frozen=True):
    """Metadata without what cannot be kept, and the errors that are left: refuse these."""

    metadata: ClientMetadata
    left_out: tuple[LeftOut, ...]
    faults: Faults


def reduced(
    metadata: ClientMetadata, judge: Callable[[ClientMetadata], Faults], otherwise: ClientMetadata
) -> Reduced:
    """Return what can be kept of the metadata, by the rules in `judge`.

    A field that cannot be kept, or no entry of which can, has its value in `otherwise`.
    """
    metadata = _without_repeats(metadata)
    told: list[LeftOut] = []
    replaced: set[str] = set()
    while True:
        faults = judge(metadata)
        values: dict[str, object] = {}
        for name, places in _places(faults).items():
            field = FIELDS[name]
            before = field.of(metadata)
            after = _kept(field, before, places)
            if after is None:
                # Once: the value in `otherwise` may be invalid as well.
                after = before if name in replaced else field.of(otherwise)
                replaced.add(name)
            if after == before:
                continue
            values[name] = after
            told += _told(name, before, places)
        # Every round removes entries or replaces fields, so it ends; values depend on few others.
        if not values:
            return Reduced(metadata, tuple(told), faults)
        metadata = with_values(metadata, values)


def _places(faults: Faults) -> Mapping[str, Mapping[str, str]]:
    """Return the details by field and position, "" for the whole field."""
    found: dict[str, dict[str, str]] = {}
    for fault in faults:
        name, _, place = fault.field.partition("/")
        found.setdefault(name, {}).setdefault(place, fault.detail)
    return {name: found[name] for name in FIELDS if name in found}


def _kept(field: Field, value: object, places: Collection[str]) -> object:
    """Return the value without its invalid entries; None if nothing of it can be kept."""
    rule = field.rule
    if rule.unusable is UnusableValue.REFUSED:
        return value
    if rule.kind not in LISTS:
        return None
    entries = cast("tuple[object, ...]", value)
    kept = tuple(each for number, each in enumerate(entries) if str(number) not in places)
    if kept or not entries:
        return kept
    return entries if rule.unusable is UnusableValue.LEFT_OUT_BESIDE_OTHERS else None


def _told(name: str, value: object, places: Mapping[str, str]) -> Iterable[LeftOut]:
    if not isinstance(value, tuple):
        return [LeftOut(name, str(value), next(iter(places.values())))]
    entries = cast("tuple[object, ...]", value)
    numbers = sorted(int(number) for number in places if number)
    return [LeftOut(name, str(entries[number]), places[str(number)]) for number in numbers]


def _without_repeats(metadata: ClientMetadata) -> ClientMetadata:
    """Return the metadata with each entry of a list once: a repeated one adds nothing."""
    lists = {name: field.of(metadata) for name, field in FIELDS.items() if field.rule.kind in LISTS}
    once = {name: tuple(dict.fromkeys(value)) for name, value in lists.items()}
    values = {name: value for name, value in once.items() if value != lists[name]}
    return with_values(metadata, values) if values else metadata
