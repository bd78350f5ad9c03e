"""Copies of immutable records with some fields changed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Declared so for type checkers, which then check names and types of the changed fields.
    from dataclasses import replace
else:
    import dataclasses

    from msgspec import Struct, structs

    def replace(record: object, /, **changes: object) -> object:
        """Return a copy of a Struct or dataclass with `changes`; TypeError for an unknown field."""
        change = structs.replace if isinstance(record, Struct) else dataclasses.replace
        return change(record, **changes)


__all__ = ["replace"]
