"""Endings whose rows are still to be written, after the next generation has ended them all."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.event.actor import DoneBy
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class EndedKind(StrEnum):
    """Whose grants ended."""

    CLIENT = "client"
    USER = "user"


@dataclass(frozen=True, slots=True)
class Ending:
    """All of an earlier generation has ended: of a client by its id, of a user by the uid."""

    kind: EndedKind
    subject: str
    because: str
    done_by: DoneBy


@dataclass(frozen=True, slots=True)
class Endings:
    """One row a subject. Those of a second ending before the first is written count as of it."""

    db: Connection

    def add(self, ending: Ending, now: Instant) -> None:
        """Leave the rest of it to the background."""
        self.db.send(
            "INSERT INTO endings (kind, subject, because, done_by, ended_at)"
            " VALUES (:kind, :subject, :because, :done_by, :now)"
            " ON CONFLICT (kind, subject) DO NOTHING",
            kind=ending.kind.value,
            subject=ending.subject,
            because=ending.because,
            done_by=ending.done_by,
            now=now,
        )

    def first(self) -> Ending | None:
        """The oldest that is not finished; for one process at a time."""
        self.db.exclude("SELECT -2")
        row = self.db.row(
            "SELECT kind, subject, because, done_by FROM endings"
            " ORDER BY ended_at, kind, subject LIMIT 1"
        )
        return None if row is None else Ending(EndedKind(row[0]), *row[1:])

    def finish(self, ending: Ending) -> None:
        """Every row of it is written."""
        self.db.send(
            "DELETE FROM endings WHERE kind = :kind AND subject = :subject",
            kind=ending.kind.value,
            subject=ending.subject,
        )
