"""Write values and tables as TOML."""

import json
from collections.abc import Iterable, Mapping
from typing import cast


def toml_of(value: object) -> str:
    """Return a value as TOML in one line. Raises ValueError for null, which TOML does not have."""
    if value is None:
        raise ValueError("null")
    if isinstance(value, dict):
        pairs = cast("dict[str, object]", value).items()
        shown = ", ".join(f"{toml_of(key)} = {toml_of(inner)}" for key, inner in pairs)
        return f"{{ {shown} }}" if shown else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(toml_of(item) for item in cast('list[object]', value))}]"
    # A JSON string, number or flag is spelt the same in TOML, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def toml_table(kind: str, table: Mapping[str, object]) -> str:
    """Return an entry of the list `kind`."""
    lines = (f"{key} = {toml_of(value)}" for key, value in table.items())
    return "\n".join([f"[[{kind}]]", *lines, ""])


def toml_tables(tables: Iterable[tuple[str, Mapping[str, object]]]) -> str:
    """Return entries of lists, each with the name of its list."""
    return "\n".join(toml_table(kind, table) for kind, table in tables)
