"""Signing keys and their store: public half in clear, private half encrypted."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.storage.revision import touch
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class KeyState(StrEnum):
    """`NEXT` is published and does not sign yet; `RETIRING` still verifies and no longer signs."""

    NEXT = "next"
    CURRENT = "current"
    RETIRING = "retiring"
    GONE = "gone"


class SigningKeyRecord(Struct, frozen=True):
    """A stored key: public half in clear, private half sealed."""

    kid: str
    purpose: str
    algorithm: str
    period: int
    public_jwk: str
    sealed: str
    created_at: Instant
    activates_at: Instant
    retires_at: Instant | None
    removed_at: Instant | None

    def state(self, now: Instant) -> KeyState:
        """Return the state of the key: published, then signing, then only verifying, then gone."""
        if self.removed_at is not None and self.removed_at <= now:
            return KeyState.GONE
        if self.activates_at > now:
            return KeyState.NEXT
        if self.retires_at is None or self.retires_at > now:
            return KeyState.CURRENT
        return KeyState.RETIRING


class SigningKeys(Struct, frozen=True):
    """The signing keys that are not deleted.

    Every change bumps the revision that caches compare.
    """

    db: Connection

    def all(self, now: Instant) -> Sequence[SigningKeyRecord]:
        """Return every published key, ordered by the time of its first signature.

        Of two keys that start in one second, the one created later comes later.
        """
        return _KEYS.all(
            self.db,
            "SELECT * FROM signing_keys WHERE removed_at IS NULL OR removed_at > :now"
            " ORDER BY activates_at, period",
            now=now,
        )

    def last_period(self, algorithm: str) -> int:
        """Return the period of this algorithm's newest key, also if it is gone; -1 for none."""
        row = self.db.row(
            "SELECT max(period) FROM signing_keys WHERE algorithm = :algorithm",
            algorithm=algorithm,
        )
        return -1 if row is None or row[0] is None else int(row[0])

    def issue(self, record: SigningKeyRecord) -> bool:
        """Insert the key. False if another process created this period's key first."""
        touch(self.db)
        issued = _KEYS.run(
            self.db,
            "INSERT INTO signing_keys (*) VALUES (*)"
            " ON CONFLICT (purpose, algorithm, period) DO NOTHING",
            record,
        )
        return issued == 1

    def retire(self, kid: str, retires_at: Instant, removed_at: Instant) -> bool:
        """Schedule the end of signing and, later, of publishing. Returns True once."""
        touch(self.db)
        retired = self.db.run(
            "UPDATE signing_keys SET retires_at = :retires_at, removed_at = :removed_at"
            " WHERE kid = :kid AND retires_at IS NULL",
            kid=kid,
            retires_at=retires_at,
            removed_at=removed_at,
        )
        return retired == 1

    def withdraw(self, kid: str, now: Instant) -> bool:
        """Stop signing with it and publishing it, now. Exactly one concurrent caller gets True."""
        touch(self.db)
        withdrawn = self.db.run(
            "UPDATE signing_keys SET retires_at = :now, removed_at = :now"
            " WHERE kid = :kid AND (removed_at IS NULL OR removed_at > :now)",
            kid=kid,
            now=now,
        )
        return withdrawn == 1

    def activate(self, kid: str, activates_at: Instant) -> bool:
        """Let a published key sign earlier than planned."""
        touch(self.db)
        moved = self.db.run(
            "UPDATE signing_keys SET activates_at = :activates_at"
            " WHERE kid = :kid AND activates_at > :activates_at",
            kid=kid,
            activates_at=activates_at,
        )
        return moved == 1

    def belongs_to(self, mark: int) -> bool:
        """Return whether this is the database's keyring; the first one asked about becomes it."""
        self.db.run(
            "INSERT INTO revision (name, number) VALUES ('keyring', :mark)"
            " ON CONFLICT (name) DO NOTHING",
            mark=mark,
        )
        row = self.db.row("SELECT number FROM revision WHERE name = 'keyring'")
        return row is not None and row[0] == mark

    def reseal(self, kid: str, before: str, sealed: str) -> bool:
        """Replace the encrypted private half by its encryption with another key."""
        resealed = self.db.run(
            "UPDATE signing_keys SET sealed = :sealed WHERE kid = :kid AND sealed = :before",
            kid=kid,
            before=before,
            sealed=sealed,
        )
        return resealed == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` keys that are gone."""
        return self.db.run(
            "DELETE FROM signing_keys WHERE kid IN"
            " (SELECT kid FROM signing_keys WHERE removed_at <= :now LIMIT :limit)",
            now=now,
            limit=limit,
        )


_KEYS = Record(SigningKeyRecord, "signing_keys")
