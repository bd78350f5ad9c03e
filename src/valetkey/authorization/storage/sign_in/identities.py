"""Identities at other servers, and whose they are."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.identity import Identity
from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Identities:
    """One row for each; nobody shares one."""

    db: Connection

    def link(self, identity: Identity) -> bool:
        """Connect it. False if somebody is connected to it already: of two, one is told True."""
        linked = self.db.run(
            "INSERT INTO identities (issuer, subject, uid, shown, linked_at, last_used_at)"
            " VALUES (:issuer, :subject, :uid, :shown, :linked_at, :last_used_at)"
            " ON CONFLICT (issuer, subject) DO NOTHING",
            issuer=identity.issuer,
            subject=identity.subject,
            uid=identity.uid,
            shown=identity.shown,
            linked_at=identity.linked_at,
            last_used_at=identity.last_used_at,
        )
        return linked == 1

    def find(self, issuer: str, subject: str) -> Identity | None:
        """The identity, if it is connected to anybody."""
        row = self.db.row(
            "SELECT issuer, subject, uid, shown, linked_at, last_used_at FROM identities"
            " WHERE issuer = :issuer AND subject = :subject",
            issuer=issuer,
            subject=subject,
        )
        return None if row is None else _identity(row)

    def of_user(self, uid: Uid) -> Sequence[Identity]:
        """All of one person, oldest first."""
        rows = self.db.rows(
            "SELECT issuer, subject, uid, shown, linked_at, last_used_at FROM identities"
            " WHERE uid = :uid ORDER BY linked_at, issuer, subject",
            uid=uid,
        )
        return [_identity(row) for row in rows]

    def touch(self, identity: Identity, now: Instant) -> bool:
        """Note that it was used just now. False if it is this person's no more."""
        touched = self.db.run(
            "UPDATE identities SET last_used_at = :now"
            " WHERE issuer = :issuer AND subject = :subject AND uid = :uid",
            now=now,
            issuer=identity.issuer,
            subject=identity.subject,
            uid=identity.uid,
        )
        return touched == 1

    def unlink(self, uid: Uid, issuer: str, subject: str) -> bool:
        """Disconnect it. False if it was not this person's."""
        gone = self.db.run(
            "DELETE FROM identities WHERE issuer = :issuer AND subject = :subject AND uid = :uid",
            issuer=issuer,
            subject=subject,
            uid=uid,
        )
        return gone == 1

    def forget(self, uid: Uid) -> int:
        """Disconnect all of one person."""
        return self.db.run("DELETE FROM identities WHERE uid = :uid", uid=uid)


def _identity(row: Row) -> Identity:
    return Identity(row[0], row[1], Uid(row[2]), row[3], Instant(row[4]), row[5])
