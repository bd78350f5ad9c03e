"""An app's secrets as shown to its developers: the last letters and the last use."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


class SecretSummary(Struct, frozen=True):
    """A live secret, identified by its last letters; "" if they were not stored."""

    id: str
    created_at: Instant
    expires_at: Instant | None
    last_used_at: Instant | None
    ending: str


class Secrets(Struct, frozen=True):
    """Display data of secrets; nothing here takes part in authentication."""

    db: Connection

    def live(self, client_id: str, now: Instant) -> Sequence[SecretSummary]:
        """Return the live secrets, newest first."""
        return _SECRETS.all(
            self.db,
            "SELECT * FROM client_secrets"
            " WHERE client_id = :client_id AND (expires_at IS NULL OR expires_at > :now)"
            " ORDER BY created_at DESC, id",
            client_id=client_id,
            now=now,
        )

    def save_last_letters(self, secret_id: str, ending: str) -> None:
        """Store the last letters of a secret that was created here."""
        self.db.run(
            "UPDATE client_secrets SET ending = :ending WHERE id = :id",
            id=secret_id,
            ending=ending,
        )

    def note_uses(self, uses: Mapping[str, Instant]) -> None:
        """Record the last use of each secret, unless a later one is known."""
        for secret_id, at in uses.items():
            self.db.run(
                "UPDATE client_secrets SET last_used_at = :at"
                " WHERE id = :id AND (last_used_at IS NULL OR last_used_at < :at)",
                id=secret_id,
                at=at,
            )


_SECRETS = Record(SecretSummary, "client_secrets")
