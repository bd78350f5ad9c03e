"""Copies of immutable records with some fields changed, or as records of another kind."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from msgspec import Struct

StructT = TypeVar("StructT", bound=Struct)

if TYPE_CHECKING:
    # Declared so for type checkers, which then check names and types of the changed fields.
    from dataclasses import replace
else:
    import dataclasses

    from msgspec import structs

    def replace(record: object, /, **changes: object) -> object:
        """Return a copy of a Struct or dataclass with `changes`; TypeError for an unknown field."""
        change = structs.replace if isinstance(record, Struct) else dataclasses.replace
        return change(record, **changes)


def converted(kind: type[StructT], record: object, /, **others: object) -> StructT:
    """Return a Struct of this kind: `others`, and fields of the same names as those of `record`.

    Tuples become lists, sets sorted lists and mappings dictionaries, as JSON has them.

    Raises AttributeError for a field that is in neither.
    """
    names = set(kind.__struct_fields__) - set(others)
    return kind(**{name: _plain(getattr(record, name)) for name in names}, **others)


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return list(cast("tuple[object, ...]", value))
    if isinstance(value, frozenset):
        return sorted(cast("frozenset[str]", value))
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else value


__all__ = ["converted", "replace"]
