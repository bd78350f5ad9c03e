"""Imports: a file of users, from its upload to the report."""

from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.model.event.event import DoneBy, Event
from valetkey.authorization.model.user import Uid
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable


class ImportKind(StrEnum):
    """The formats of a file."""

    CSV = "csv"
    JSON = "json"


class ImportState(StrEnum):
    """The stages of an import, in their order; `stopped` ends it before it is finished."""

    RECEIVING = "receiving"
    CHECKING = "checking"
    CHECKED = "checked"
    IMPORTING = "importing"
    FINISHED = "finished"
    STOPPED = "stopped"

    @property
    def is_running(self) -> bool:
        """Whether the server works on the import without further input."""
        return self in {ImportState.RECEIVING, ImportState.CHECKING, ImportState.IMPORTING}

    @property
    def is_over(self) -> bool:
        """Whether the import has reached a final state."""
        return self in {ImportState.FINISHED, ImportState.STOPPED}


class RowState(StrEnum):
    """The outcome for one user of the file."""

    WAITING = "waiting"
    GOOD = "good"
    FAULTY = "faulty"
    EXISTS = "exists"
    CREATED = "created"


class UserImport(Struct, frozen=True):
    """A file of users; `position` counts the rows of this stage.

    `uid` is the administrator, whose role must still allow it; None for the command line.
    """

    id: str
    uid: Uid | None
    done_by: DoneBy
    file: str
    kind: ImportKind
    state: ImportState
    total: int
    position: int
    created_at: Instant
    finished_at: Instant | None = None
    due_at: Instant = Instant(0)

    @property
    def is_due(self) -> bool:
        """Whether there is work for a worker: rows to check, to import or to clear."""
        if self.state is ImportState.STOPPED:
            return self.position < self.total
        return self.state in {ImportState.CHECKING, ImportState.IMPORTING}


@dataclass(frozen=True, slots=True)
class ImportRow:
    """A user of the file: the record as JSON until the row is done, and why it was not imported.

    `line` is where an editor or spreadsheet shows it; `position` counts from 1.
    """

    position: int
    line: int
    username: str
    email: str
    state: RowState = RowState.WAITING
    reason: str = ""
    data: str = field(default="", repr=False)


class UserImportStarted(Event, frozen=True):
    """An import of `users` users began; each of them has a `user.registered` of its own."""

    subject = "import:{import_id}"
    sentence = translatable("An import of users began: %(users)s.")

    affects_tokens: ClassVar[bool] = False

    import_id: str
    users: int


class UserImportFinished(Event, frozen=True):
    """An import of users ended: `created` accounts, `existing` ones before, `failed` rows."""

    subject = "import:{import_id}"
    sentence = translatable(
        "An import of users ended: %(created)s created, %(existing)s already existed,"
        " %(failed)s with errors."
    )
    # Version 0.2 counted the users who existed as failed.
    without = MappingProxyType(
        {
            "existing": translatable(
                "An import of users ended: %(created)s created, %(failed)s failed."
            )
        }
    )

    affects_tokens: ClassVar[bool] = False

    import_id: str
    created: int
    existing: int
    failed: int


EVENTS = (UserImportStarted, UserImportFinished)
