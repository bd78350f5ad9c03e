"""Reads the tables of vectors in this folder into records."""

import tomllib
from pathlib import Path
from typing import TypeVar

import msgspec

Row = TypeVar("Row")


def rows(file: str, table: str, kind: type[Row]) -> list[Row]:
    """Every row of `table` in `file`, as `kind`; a missing member is an error."""
    content = tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    return [msgspec.convert(row, kind) for row in content[table]]
