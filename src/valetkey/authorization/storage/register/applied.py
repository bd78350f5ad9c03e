"""Store of what the files of `valetkey apply` declared, so that only that is ever pruned."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class AppliedKind(StrEnum):
    """The kinds of core objects that a file declares; features have others."""

    ROLE = "role"
    MEMBER = "member"
    GROUP = "group"
    CLIENT = "client"
    USER = "user"


class AppliedObject(Struct, frozen=True):
    """An object of a file, by its id; `part` names a member of a group or a role at an API."""

    kind: str
    id: str
    part: str
    file: str
    pruned_at: Instant | None = None


class Applied(Struct, frozen=True):
    """Store which file declares an object: at most one. Rows of deleted objects may remain."""

    db: Connection

    def of_file(self, file: str) -> Sequence[AppliedObject]:
        """Return everything that belongs to the file, also what was pruned."""
        return _APPLIED.all(
            self.db, "SELECT * FROM applied WHERE file = :file ORDER BY kind, id, part", file=file
        )

    def claim(self, each: AppliedObject) -> None:
        """Let the object belong to the file, and to no other one."""
        self.db.send(
            "INSERT INTO applied (kind, id, part, file, pruned_at)"
            " VALUES (:kind, :id, :part, :file, :pruned_at) ON CONFLICT (kind, id, part)"
            " DO UPDATE SET file = :file, pruned_at = :pruned_at",
            kind=each.kind,
            id=each.id,
            part=each.part,
            file=each.file,
            pruned_at=each.pruned_at,
        )

    def release(self, kind: str, object_id: str, part: str = "") -> None:
        """Let the object belong to no file: it was deleted, and may be created by hand."""
        self.db.send(
            "DELETE FROM applied WHERE kind = :kind AND id = :id AND part = :part",
            kind=str(kind),
            id=object_id,
            part=part,
        )


def member_part(uid: int) -> str:
    """Name a user as a member of a group."""
    return f"user {uid}"


def role_part(role: str, holder: int | str) -> str:
    """Name a role at an API that a user (its uid) or a group (its id) has."""
    return f"{role} {f'user {holder}' if isinstance(holder, int) else f'group {holder}'}"


_APPLIED = Record(AppliedObject, "applied")
