"""What a developer may know of an app's secrets: which there are, and when each was last used."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class KnownSecret:
    """One secret that still works, told apart by its last letters; "" where nobody kept them."""

    id: str
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    ending: str


@dataclass(frozen=True, slots=True)
class Secrets:
    """Looks beside the register: what is noted here decides nothing."""

    db: Connection

    def live(self, client_id: str, now: Instant) -> Sequence[KnownSecret]:
        """Those that still work, newest first."""
        rows = self.db.rows(
            "SELECT id, created_at, expires_at, last_used_at, ending FROM client_secrets"
            " WHERE client_id = :client_id AND (expires_at IS NULL OR expires_at > :now)"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
            now=now,
        )
        return [KnownSecret(row[0], Instant(row[1]), row[2], row[3], row[4]) for row in rows]

    def keep_ending(self, secret_id: str, ending: str) -> None:
        """Remember the last letters of a secret that was made here."""
        self.db.run(
            "UPDATE client_secrets SET ending = :ending WHERE id = :id",
            id=secret_id,
            ending=ending,
        )

    def note_uses(self, uses: Mapping[str, Instant]) -> None:
        """Remember when each of these was last used, unless a later use is known."""
        for secret_id, at in uses.items():
            self.db.run(
                "UPDATE client_secrets SET last_used_at = :at"
                " WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)",
                id=secret_id,
                at=at,
            )
