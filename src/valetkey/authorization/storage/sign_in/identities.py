"""Linked accounts: identities at other servers and their users."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Identity, Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class Identities(Struct, frozen=True):
    """One row for each identity; it belongs to one user."""

    db: Connection

    def link(self, identity: Identity) -> bool:
        """Link it. False if it is linked already; exactly one concurrent caller gets True."""
        linked = _IDENTITIES.run(
            self.db,
            "INSERT INTO identities (*) VALUES (*) ON CONFLICT (issuer, subject) DO NOTHING",
            identity,
        )
        return linked == 1

    def find(self, issuer: str, subject: str) -> Identity | None:
        """Return the identity if it is linked."""
        return _IDENTITIES.find(
            self.db,
            "SELECT * FROM identities WHERE issuer = :issuer AND subject = :subject",
            issuer=issuer,
            subject=subject,
        )

    def of_user(self, uid: Uid) -> Sequence[Identity]:
        """Return all of one user, oldest first."""
        return _IDENTITIES.all(
            self.db,
            "SELECT * FROM identities WHERE uid = :uid ORDER BY linked_at, issuer, subject",
            uid=uid,
        )

    def touch(self, identity: Identity, now: Instant) -> bool:
        """Record that it was used now. False if it is no longer this user's."""
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
        """Unlink it. False if it was not this user's."""
        gone = self.db.run(
            "DELETE FROM identities WHERE issuer = :issuer AND subject = :subject AND uid = :uid",
            issuer=issuer,
            subject=subject,
            uid=uid,
        )
        return gone == 1

    def forget(self, uid: Uid) -> int:
        """Unlink all of one user."""
        return self.db.run("DELETE FROM identities WHERE uid = :uid", uid=uid)


_IDENTITIES = Record(Identity, "identities")
