"""The file of `valetkey apply`: an entry of it, and the step of a plan that is made for it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from math import isfinite
from typing import cast

from msgspec import Struct

from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.agreement import Problem
from valetkey.config.rules import quoted
from valetkey.kernel.moment import Instant, parse_lifetime
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import Secret


class DeclaredEntry(Struct, frozen=True):
    """An entry of the file: its path such as `clients[2]`, its values, its secret separately."""

    path: str
    values: Mapping[str, object]
    secret: Secret | None

    def text(self, key: str) -> str:
        """Return the value of `key` as text, "" if it is absent."""
        return str(self.values.get(key, ""))


class Action(StrEnum):
    """The kinds of changes to an object."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    REMOVE = "remove"


class Declared(Struct, frozen=True):
    """An object, a membership or a role that the file declares, and whether it was created now."""

    kind: str
    id: str
    part: str = ""
    is_new: bool = False


class Step(Struct, frozen=True):
    """One change: `fields` names what changed; `secret` was generated and is shown once."""

    action: Action
    kind: str
    name: str
    fields: tuple[str, ...] = ()
    secret: Secret | None = None
    secret_name: str = "client_secret"
    costs: tuple[str, ...] = ()
    """Warnings: risky legacy features that the step newly allows, and what is still missing."""
    declares: tuple[Declared, ...] = ()
    """What the file owns once it has created this."""

    @property
    def line(self) -> str:
        """Return the step as one line of a plan."""
        sign = _SIGNS[self.action]
        shown = self.fields and self.action in {Action.CHANGE, Action.REMOVE}
        changed = f": {', '.join(self.fields)}" if shown else ""
        return f"{sign} {self.kind} {self.name}{changed}"

    def as_json(self) -> dict[str, object]:
        """Return the step as JSON for scripts, including the secret."""
        made = {self.secret_name: self.secret.reveal()} if self.secret else {}
        return {
            "action": self.action.value,
            "kind": self.kind,
            "name": self.name,
            "fields": list(self.fields),
            "costs": list(self.costs),
            **made,
        }


Reader = Callable[[object], object]
"""Returns a value of the file as the server takes it. Raises InvalidDeclaredValue."""


class InvalidDeclaredValue(Exception):
    """A value has the wrong type or format; carries a description of the correct value."""


def read_text(value: object) -> str:
    """Return a string."""
    if not isinstance(value, str):
        raise InvalidDeclaredValue("write a string")
    return value


def read_texts(value: object) -> tuple[str, ...]:
    """Return a list of strings."""
    if not isinstance(value, list):
        raise InvalidDeclaredValue("write a list of strings")
    return tuple(read_text(item) for item in cast("list[object]", value))


def read_boolean(value: object) -> bool:
    """Return the boolean of a declaration; InvalidDeclaredValue for anything else."""
    if not isinstance(value, bool):
        raise InvalidDeclaredValue("write true or false")
    return value


def read_lifetime(value: object) -> int:
    """Return a lifetime in seconds."""
    try:
        return parse_lifetime(read_text(value))
    except OperatorError as error:
        raise InvalidDeclaredValue(error.message) from None


def read_table(value: object) -> object:
    """Return a table of values that JSON can represent."""
    if not isinstance(value, dict):
        raise InvalidDeclaredValue("write a table, such as { … }")
    return read_json(cast("dict[str, object]", value))


def read_json(value: object) -> object:
    """Return the value if JSON can represent it: no dates, and no number that is not finite."""
    if isinstance(value, dict):
        return {name: read_json(item) for name, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list):
        return [read_json(item) for item in cast("list[object]", value)]
    if isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
        return value
    raise InvalidDeclaredValue("write strings, numbers, booleans, lists and tables of these")


class DeclaredKind(Struct, frozen=True):
    """A kind of objects that a feature adds to the file."""

    name: str
    """The name of one: in plans, and stored beside its id."""
    table: str
    """The name of its tables in the file."""
    readers: Mapping[str, Reader]
    """Read the values of a table, by key."""
    key: str
    """The key that identifies an object; no two tables have the same value of it."""
    example: str
    """A value of that key."""
    secret_key: str
    """The key of the secret, "" if there is none."""
    hold: Callable[[Transaction], None]
    """Locks what other transactions could change, before any row is read."""
    prepare: Callable[[Services, DeclaredEntry], Callable[[Transaction, Instant], Step]]
    """Draws random values outside the transaction; what it returns raises InvalidEntry."""
    exported: Callable[[Transaction], Iterator[Mapping[str, object]]]
    """Return all as tables that, applied, change nothing."""
    switch: Callable[[Services, Transaction, str, Instant | None, Instant], str | None] | None = (
        None
    )
    """Disables an enabled object by id, or enables one that pruning disabled at that time.

    Returns its name, None if nothing changed. None if pruning deletes the objects.
    """
    remove: Callable[[Transaction, str, Instant], bool] | None = None
    """Deletes an object by id; False if there is none. None if pruning disables the objects."""
    spelled: Callable[[str], str] = str
    """Returns the form in which two values of the key are compared."""
    before_users: bool = False
    """Whether users of the file depend on it; others are applied after all objects of the core."""


class InvalidEntry(Exception):
    """An entry of the file is not acceptable."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Carry all problems."""
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def invalid_entry(entry: DeclaredEntry, faults: Sequence[MetadataError]) -> InvalidEntry:
    """Return the faults that an operation found, at their places in the file."""
    return InvalidEntry([_problem(entry, fault) for fault in faults])


def _problem(entry: DeclaredEntry, fault: MetadataError) -> Problem:
    name, _, number = fault.field.partition("/")
    listed = entry.values.get(name)
    if not number.isdigit() or not isinstance(listed, tuple):
        return Problem(f"{entry.path}.{fault.field}", "it is not accepted", fault.detail)
    # Counted from one, like the tables of the file.
    path = f"{entry.path}.{name}[{int(number) + 1}]"
    value = cast("tuple[str, ...]", listed)[int(number)]
    return Problem(path, f"{quoted(value)} is not valid", fault.detail)


def changed_or_kept(kind: str, name: str, fields: Sequence[str], *declares: Declared) -> Step:
    """Return the step for an object that already exists."""
    action = Action.CHANGE if fields else Action.KEEP
    return Step(action, kind, name, tuple(fields), declares=declares)


_SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.KEEP: "=", Action.REMOVE: "-"}
