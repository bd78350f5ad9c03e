"""Every SQL statement of the program, read from its source without running it."""

import ast
import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from msgspec import Struct
from msgspec.structs import fields

from valetkey.database.record import Record

ROOT = Path(__file__).parents[2] / "src" / "valetkey"
_VERBS = frozenset({"rows", "row", "once", "run", "send", "assume", "claim", "ahead"})
_VERBS_OF_RECORDS = frozenset({"find", "all", "ahead", "run", "send", "claim"})
# The layers that hand on statements or make their own tables, and keep none of the program's.
_NOT_SEARCHED = frozenset({"database", "testing"})
_SHARED_STORES = frozenset({"decisions.py", "standbys.py"})


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement and where it stands; `sql` is None where it is no literal text."""

    place: str
    package: str
    sql: str | None


@cache
def statements() -> tuple[Statement, ...]:
    """All that is handed to a connection, which the program calls `db` wherever it has one."""
    return tuple(_statements())


def _statements() -> Iterator[Statement]:
    for path in sorted(ROOT.rglob("*.py")):
        package = path.relative_to(ROOT).parts[0]
        if package not in _NOT_SEARCHED or path.name in _SHARED_STORES:
            yield from _of(path, package)


def _of(path: Path, package: str) -> Iterator[Statement]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    named = _constants(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and _is_verb(node.func):
            position = f"{path.relative_to(ROOT)}:{node.lineno}"
            declared = [sql for _, sql in _declared(path, node.args[0])]
            for sql in declared or _texts(node.args[0], named):
                yield Statement(position, package, sql)
        elif isinstance(node, ast.Call):
            position = f"{path.relative_to(ROOT)}:{node.lineno}"
            for record in _records(path, node):
                for sql in _texts(node.args[1], named):
                    yield Statement(position, package, sql and record.statement(sql))
            for record, sql in _declared_with_records(path, node):
                yield Statement(position, package, record.statement(sql))


def _is_verb(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _VERBS
        and _is_connection(function.value)
    )


def _is_connection(owner: ast.expr) -> bool:
    name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
    return name.lstrip("_") == "db"


def _records(path: Path, call: ast.Call) -> Iterator[Record[object]]:
    """The records whose columns the statement of this call leaves out, as the program has them."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr=verb), args=[db, _, *_]) if (
            verb in _VERBS_OF_RECORDS and _is_connection(db)
        ):
            module = vars(_module(path))
            match owner:
                case ast.Name(id=name) if isinstance(record := module.get(name), Record):
                    yield record
                case ast.Attribute(attr=field):
                    # A field of a class, which says in its own subclasses what it is.
                    yield from (
                        member.default
                        for candidate in module.values()
                        if isinstance(candidate, type) and issubclass(candidate, Struct)
                        for member in fields(candidate)
                        if member.name == field and isinstance(member.default, Record)
                    )
                case _:
                    pass
        case _:
            pass


def _declared(path: Path, node: ast.expr) -> Iterator[tuple[object, str]]:
    """The constants of the module that hold the statement `self.x.field`, and what each says."""
    match node:
        case ast.IfExp(body=one, orelse=other):
            yield from _declared(path, one)
            yield from _declared(path, other)
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=field):
            for constant in vars(_module(path)).values():
                if isinstance(constant, Struct):
                    sql = getattr(constant, field, None)
                    if isinstance(sql, str):
                        yield constant, sql
        case _:
            pass


def _declared_with_records(path: Path, call: ast.Call) -> Iterator[tuple[Record[object], str]]:
    """The same of a call `self.x.record.find(db, self.x.field)`: each with its own record."""
    match call:
        case ast.Call(
            func=ast.Attribute(
                value=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=name),
                attr=verb,
            ),
            args=[db, statement, *_],
        ) if verb in _VERBS_OF_RECORDS and _is_connection(db):
            for constant, sql in _declared(path, statement):
                if isinstance(record := getattr(constant, name, None), Record):
                    yield record, sql
        case _:
            pass


def _module(path: Path) -> ModuleType:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return importlib.import_module(".".join(parts))


def _constants(tree: ast.AST) -> Mapping[str, list[ast.expr]]:
    """What each name of the file is assigned, wherever."""
    named: dict[str, list[ast.expr]] = {}
    loops: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                named.setdefault(name, []).append(value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                named.setdefault(name, []).append(value)
            case ast.comprehension(target=ast.Name(id=name), iter=values):
                loops.append((name, values))
            case _:
                pass
    for name, values in loops:
        several = named.get(values.id, []) if isinstance(values, ast.Name) else [values]
        for expression in [*several]:
            if isinstance(expression, ast.Tuple):
                named.setdefault(name, []).extend(expression.elts)
    return named


def _texts(node: ast.expr, named: Mapping[str, list[ast.expr]]) -> Iterator[str | None]:
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.Name(id=name) if name in named:
            for value in named[name]:
                yield from _texts(value, named)
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one, named)
            yield from _texts(other, named)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            for before in _texts(left, named):
                for after in _texts(right, named):
                    yield None if before is None or after is None else before + after
        case _:
            yield None
