"""The brand as it was changed while the server ran."""

from collections.abc import Mapping
from dataclasses import dataclass

from valetkey.authorization.model.server.brand import BrandField
from valetkey.authorization.storage.revision import touch
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class BrandChanges:
    """A value for each part that is not as the settings say."""

    db: Connection

    def take_turn(self) -> None:
        """Let nobody else change it until this transaction ends, and have every process look."""
        touch(self.db)

    def all(self) -> Mapping[BrandField, str]:
        """All of them. What another version wrote and this one does not know is left out."""
        rows = self.db.rows("SELECT field, value FROM brand")
        known = {each.value: each for each in BrandField}
        return {known[field]: value for field, value in rows if field in known}

    def put(self, field: BrandField, value: str, now: Instant) -> None:
        """Have it so from now on."""
        self.db.send(
            "INSERT INTO brand (field, value, changed_at) VALUES (:field, :value, :now)"
            " ON CONFLICT (field) DO UPDATE SET value = :value, changed_at = :now",
            field=field.value,
            value=value,
            now=now,
        )

    def drop(self, field: BrandField) -> None:
        """Have it as the settings say."""
        self.db.send("DELETE FROM brand WHERE field = :field", field=field.value)
