"""Records: a class whose fields are the columns of its table, named once for every statement.

    NOTES = Record(Note, "notes", is_long=Column(sql="length(notes.text) > 80"))

    NOTES.find(db, "SELECT * FROM notes WHERE id = :id", id=id)
    NOTES.run(db, "INSERT INTO notes (*) VALUES (*)", note)

In these statements `*` stands for the columns of the record in the order of its fields: all of them
after SELECT and RETURNING, parameters for those that are stored after VALUES and SET; after SET
without the first, which identifies the row. The function that turns a row into the object is
generated once, so that it costs what the same function written by hand would.
"""

import re
from collections.abc import Callable, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import Struct

from valetkey.database.engine import Connection, Row
from valetkey.kernel.scope import Scope

T = TypeVar("T")

_READ = re.compile(r"\b(SELECT|RETURNING) \*")
_VALUES = re.compile(r"\b(VALUES) \(\*")
_NAMES = re.compile(r"^(\s*INSERT INTO \w+) \(\*")
_SET = re.compile(r"^(\s*UPDATE \w+ SET) \*")

Converter = Callable[[Any], Any]


class Column(Struct, frozen=True):
    """The storage of a field, where its name and type do not determine it.

    `sql` is an expression that is only read; `read` and `write` convert a value that is not NULL.
    """

    name: str = ""
    sql: str = ""
    read: Converter | None = None
    write: Converter | None = None


class Record(Generic[T]):
    """The columns of a table as the fields of the class `T`.

    Text, integers and new types of these are stored as they are; booleans as 0 and 1, enumerations
    by value; scopes, tuples and frozensets of words separated by spaces; other classes by their
    `encode` and `decode`. A field may be another record; if it may be None, it is when a column is
    NULL that the other record requires.
    """

    def __init__(
        self, made: Callable[..., T], table: str = "", **fields: "Column | Record[Any]"
    ) -> None:
        """Read the fields of a class, or the parameters of a function, and their types.

        `fields` says more about those whose name and type do not say how they are stored.
        """
        self._parts: list[_Part] = [
            _part(name, hint, fields.get(name))
            for name, hint in get_type_hints(made).items()
            if name != "return"
        ]
        self._made = made
        self._columns: list[str] = []
        for part in self._parts:
            if part.record is not None:
                self._columns += part.record._columns  # noqa: SLF001 - the same class
            elif part.column.sql or not table:
                self._columns.append(part.column.sql or part.column.name)
            else:
                self._columns.append(f"{table}.{part.column.name}")
        self._stored = [part for part in self._parts if part.record is None and not part.column.sql]
        self._statements: dict[str, str] = {}
        self.of: Callable[[Row], T] = self._reader()
        """Return the object of a row with exactly these columns."""
        self.values: Callable[[T], Mapping[str, object]] = self._writer()
        """Return the parameters that store an object, by column."""

    def find(self, db: Connection, sql: str, /, **params: object) -> T | None:
        """Return the object of the first row, or None."""
        row = db.row(self._statements.get(sql) or self.statement(sql), **params)
        return None if row is None else self.of(row)

    def all(self, db: Connection, sql: str, /, **params: object) -> list[T]:
        """Return the object of every row."""
        rows = db.rows(self._statements.get(sql) or self.statement(sql), **params)
        return [self.of(row) for row in rows]

    def ahead(self, db: Connection, sql: str, /, **params: object) -> Callable[[], list[T]]:
        """Send a query as `Connection.ahead` does; the function returned gives the objects."""
        rows = db.ahead(self._statements.get(sql) or self.statement(sql), **params)
        return lambda: [self.of(row) for row in rows()]

    def run(self, db: Connection, sql: str, stored: T, /, **params: object) -> int:
        """Store an object, with further parameters; return how many rows were changed."""
        return db.run(
            self._statements.get(sql) or self.statement(sql), **self.values(stored), **params
        )

    def claim(self, db: Connection, sql: str, stored: T, /, **params: object) -> bool:
        """Store an object if its row is free; return whether it was. See `Connection.claim`."""
        return db.claim(
            self._statements.get(sql) or self.statement(sql), **self.values(stored), **params
        )

    def send(self, db: Connection, sql: str, stored: T, /, **params: object) -> None:
        """Store an object as `run` does, without waiting for the number of changed rows."""
        db.send(self._statements.get(sql) or self.statement(sql), **self.values(stored), **params)

    def statement(self, sql: str) -> str:
        """Return the SQL that is sent for a statement: each `*` replaced by the columns."""
        names = [part.column.name for part in self._stored]
        text = _READ.sub(rf"\1 {', '.join(self._columns)}", sql)
        text = _NAMES.sub(rf"\1 ({', '.join(names)}", text)
        text = _VALUES.sub(rf"\1 ({', '.join(f':{name}' for name in names)}", text)
        text = _SET.sub(rf"\1 {', '.join(f'{name} = :{name}' for name in names[1:])}", text)
        self._statements[sql] = text
        return text

    def _reader(self) -> Callable[[Row], T]:
        namespace: dict[str, Any] = {}
        made, _ = self._expression(namespace, 0)
        columns = "".join(f"c{index}, " for index in range(len(self._columns)))
        exec(f"def read(row):\n {columns} = row\n return {made}", namespace)  # noqa: S102 - fields only
        read: Callable[[Row], T] = namespace["read"]
        return read

    def _expression(self, namespace: dict[str, Any], first: int) -> tuple[str, list[str]]:
        """Return the call that makes the object, and the columns that must not be NULL for it."""
        namespace[f"made{first}_{len(namespace)}"] = self._made
        made = f"made{first}_{len(namespace) - 1}"
        arguments: list[str] = []
        required: list[str] = []
        at = first
        for part in self._parts:
            column = f"c{at}"
            if part.record is not None:
                value, needed = part.record._expression(namespace, at)  # noqa: SLF001 - the same class
                at += len(part.record._columns)  # noqa: SLF001 - the same class
            else:
                value, needed = column, [column]
                at += 1
                if part.column.read is not None:
                    namespace[f"read{at}"] = part.column.read
                    value = f"read{at}({column})"
            if part.optional and value != column:
                missing = " or ".join(f"{needed_column} is None" for needed_column in needed)
                value = f"(None if {missing} else {value})"
            if not part.optional:
                required += needed
            arguments.append(f"{part.name}={value}")
        return f"{made}({', '.join(arguments)})", required

    def _writer(self) -> Callable[[T], Mapping[str, object]]:
        namespace: dict[str, Any] = {}
        pairs: list[str] = []
        for at, part in enumerate(self._stored):
            value = f"stored.{part.name}"
            if part.column.write is not None:
                namespace[f"write{at}"] = part.column.write
                missing = f"None if {value} is None else " if part.optional else ""
                value = f"{missing}write{at}({value})"
            pairs.append(f"{part.column.name!r}: {value}")
        exec(f"def write(stored):\n return {{{', '.join(pairs)}}}", namespace)  # noqa: S102 - fields only
        write: Callable[[T], Mapping[str, object]] = namespace["write"]
        return write


class _Part(Struct, frozen=True):
    """One field of a class: a column, or a record within the record."""

    name: str
    optional: bool
    column: Column
    record: Record[Any] | None = None


def _part(name: str, hint: Any, field: "Column | Record[Any] | None") -> _Part:
    optional = False
    if get_origin(hint) in {Union, UnionType}:
        (hint,) = [option for option in get_args(hint) if option is not NoneType]
        optional = True
    if isinstance(field, Record):
        return _Part(name, optional, Column(), field)
    column = field or Column()
    read, write = _conversion(hint)
    return _Part(
        name,
        optional,
        Column(column.name or name, column.sql, column.read or read, column.write or write),
    )


def _conversion(hint: Any) -> tuple[Converter | None, Converter | None]:
    """Return how a value of this type is read and written; None if it is stored as it is."""
    while hasattr(hint, "__supertype__"):
        hint = hint.__supertype__
    kind = get_origin(hint) or hint
    if kind is bool:
        return bool, int
    if kind is Scope:
        return _scope, str
    if kind is tuple:
        return _words, " ".join
    if kind is frozenset:
        return _set_of_words, _sorted_words
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind, _value
    if hasattr(kind, "decode") and not issubclass(kind, str):
        return kind.decode, kind.encode
    return None, None


def _scope(text: str) -> Scope:
    return Scope(tuple(text.split()))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _set_of_words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _sorted_words(words: frozenset[str]) -> str:
    return " ".join(sorted(words))


def _value(member: Enum) -> object:
    return member.value
