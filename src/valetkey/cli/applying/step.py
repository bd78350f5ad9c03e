"""A step of a plan: one user or client, and what becomes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.protocol.client_metadata import Fault
from valetkey.config.agreement import Problem
from valetkey.kernel.secret import Secret


class Action(StrEnum):
    """What is done about it."""

    MAKE = "make"
    CHANGE = "change"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Step:
    """What was done: `fields` names what changed; `secret` was made and is to be shown once."""

    action: Action
    kind: str
    name: str
    fields: tuple[str, ...] = ()
    secret: Secret | None = None

    @property
    def line(self) -> str:
        """The step as one line of a plan."""
        sign = {Action.MAKE: "+", Action.CHANGE: "~", Action.KEEP: "="}[self.action]
        changed = f": {', '.join(self.fields)}" if self.action is Action.CHANGE else ""
        return f"{sign} {self.kind} {self.name}{changed}"

    def as_json(self) -> dict[str, object]:
        """The step for scripts, secret included."""
        made = {"client_secret": self.secret.reveal()} if self.secret else {}
        return {
            "action": self.action.value,
            "kind": self.kind,
            "name": self.name,
            "fields": list(self.fields),
            **made,
        }


class Unfit(Exception):
    """Why one user or client cannot be as the file says."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        """Carry all of it."""
        super().__init__("; ".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def unfit(place: str, faults: Sequence[Fault]) -> Unfit:
    """What a deed objected to, at its place in the file."""
    return Unfit(
        [Problem(f"{place}.{fault.field}", "it will not do", fault.detail) for fault in faults]
    )


def changed_or_kept(kind: str, name: str, fields: Sequence[str]) -> Step:
    """The step of somebody who was there before."""
    return Step(Action.CHANGE if fields else Action.KEEP, kind, name, tuple(fields))
