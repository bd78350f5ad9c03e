"""Run operations of administration as the operator of the command line."""

from collections.abc import Callable, Mapping, Sequence
from typing import cast
from urllib.parse import quote

import msgspec

from valetkey.authorization.operations.operation import CURSOR, InvalidInput, Operation, call_of
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.cli import say
from valetkey.cli.options import duration, shown
from valetkey.cli.register.store import OpenedStore, refused
from valetkey.kernel.replace import replace

_MOST = "200"


async def perform(
    opened: OpenedStore,
    operation: Operation,
    arguments: Mapping[str, str] | None = None,
    body: object = None,
    *,
    query: Mapping[str, str] | None = None,
    password_hash: str | None = None,
    named: Callable[[MetadataError], MetadataError] = lambda fault: fault,
) -> object:
    """Run an operation and return its value; of a list, the items of all pages; of a file, bytes.

    Raises OperatorError for invalid input, with the fields as they are `named`, and Refused.
    """
    path = {name: quote(value, safe="") for name, value in (arguments or {}).items()}
    parameters, items = dict(query or {}), list[object]()
    if any(parameter.name == "limit" for parameter in operation.query):
        parameters["limit"] = _MOST
    while True:
        call = call_of(
            opened.foundation.services,
            operation,
            opened.operator,
            opened.now,
            path,
            body,
            parameters,
        )
        try:
            result = await operation.run(replace(call, password_hash=password_hash))
        except InvalidInput as invalid:
            raise refused(map(named, invalid.faults)) from None
        if result.file is not None:
            return result.file.content
        if not operation.returns_list:
            return result.value
        items += getattr(result.value, "items", ())
        if not result.next:
            return items
        parameters[CURSOR] = result.next


Members = Mapping[str, object]


def flat(value: object) -> dict[str, object]:
    """Return the members of a result, with those of its `record` among them."""
    if not isinstance(value, msgspec.Struct):
        return {}
    members: dict[str, object] = msgspec.to_builtins(value)
    record = cast("Members", members.pop("record", {}))
    return {**record, **members}


def print_list(items: Sequence[Members], columns: Sequence[tuple[str, str]], empty: str) -> None:
    """Print the items as a table; without columns, with every field that is one value."""
    if not items:
        say.note(empty)
        return
    plain = [name for name, value in items[0].items() if not isinstance(value, Mapping)]
    chosen = columns or [(name.upper().replace("_", " "), name) for name in plain]
    rows = [[cell(name, record.get(name)) for _, name in chosen] for record in items]
    say.table([head for head, _ in chosen], rows)


def print_record(members: Members) -> None:
    """Print the members that are not empty, one per line; lists of records as tables below."""
    pairs: list[tuple[str, str]] = []
    tables: dict[str, list[Members]] = {}
    for name, value in members.items():
        if isinstance(value, Mapping):
            inner = cast("Members", value)
            pairs += [
                (inner_name, cell(inner_name, inner[inner_name]))
                for inner_name in inner
                if inner[inner_name] != ""
            ]
        elif (rows := _table(value)) is not None:
            tables[name] = rows
        elif text := cell(name, value):
            pairs.append((name, text))
    if pairs:
        say.fields(pairs)
    for name, rows in tables.items():
        say.line()
        say.line(say.strong(name))
        print_list(rows, (), "")


def print_documents(members: Members) -> None:
    """Print each member that is not null as JSON, under its name."""
    for name, value in members.items():
        if value is not None:
            say.line()
            say.line(say.strong(name))
            say.line(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def _table(value: object) -> list[Members] | None:
    """Return the value as rows if it is a list that contains records."""
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    return cast("list[Members]", items) if items and isinstance(items[0], Mapping) else None


def cell(name: str, value: object) -> str:
    """Return a member of a result as text: times in UTC, lifetimes with their unit, "" for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and (name.endswith("_at") or name == "since"):
        return shown(value)
    if isinstance(value, int) and name.endswith("lifetime"):
        return duration(value)
    if isinstance(value, list):
        return ", ".join(cell("", item) for item in cast("list[object]", value))
    return ", ".join(str(value).split("\n"))
