"""A step of a plan: one object of the file, and the change that is made to it."""

from collections.abc import Sequence
from enum import StrEnum
from typing import cast

from msgspec import Struct

from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.cli.applying.file import DeclaredEntry
from valetkey.config.agreement import Problem
from valetkey.config.rules import quoted
from valetkey.kernel.secret import Secret


class Action(StrEnum):
    """The kinds of changes to an object."""

    CREATE = "create"
    CHANGE = "change"
    KEEP = "keep"
    REMOVE = "remove"


class Declared(Struct, frozen=True):
    """An object, a membership or a role that the file declares, and whether it was created now."""

    kind: AppliedKind
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

    @property
    def secret_name(self) -> str:
        """Return the name of the generated secret, such as client secret."""
        return "secret" if self.kind == "webhook" else "client_secret"

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


class InvalidEntry(Exception):
    """An entry of the file is not acceptable."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Carry all problems."""
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def invalid_entry(wanted: DeclaredEntry, faults: Sequence[MetadataError]) -> InvalidEntry:
    """Return the faults that an operation found, at their places in the file."""
    return InvalidEntry([_problem(wanted, fault) for fault in faults])


def _problem(wanted: DeclaredEntry, fault: MetadataError) -> Problem:
    name, _, number = fault.field.partition("/")
    listed = wanted.given.get(name)
    if not number.isdigit() or not isinstance(listed, tuple):
        return Problem(f"{wanted.place}.{fault.field}", "it is not accepted", fault.detail)
    # Counted from one, like the tables of the file.
    place = f"{wanted.place}.{name}[{int(number) + 1}]"
    value = cast("tuple[str, ...]", listed)[int(number)]
    return Problem(place, f"{quoted(value)} is not valid", fault.detail)


def changed_or_kept(kind: str, name: str, fields: Sequence[str], *declares: Declared) -> Step:
    """Return the step for an object that already exists."""
    action = Action.CHANGE if fields else Action.KEEP
    return Step(action, kind, name, tuple(fields), declares=declares)


_SIGNS = {Action.CREATE: "+", Action.CHANGE: "~", Action.KEEP: "=", Action.REMOVE: "-"}
