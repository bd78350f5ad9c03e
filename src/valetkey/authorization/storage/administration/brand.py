"""Changes of the brand made while the server runs."""

from collections.abc import Mapping
from dataclasses import dataclass

from valetkey.authorization.storage.revision import touch
from valetkey.config.sections.brand import BrandField
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class BrandChanges:
    """A value for each part that differs from the settings."""

    db: Connection

    def take_turn(self) -> None:
        """Lock the brand against other changes, and make every process reload it."""
        touch(self.db)

    def all(self) -> Mapping[BrandField, str]:
        """Return all changes. Parts that this version does not know are left out."""
        rows = self.db.rows("SELECT field, value FROM brand")
        known = {each.value: each for each in BrandField}
        return {known[field]: value for field, value in rows if field in known}

    def put(self, field: BrandField, value: str, now: Instant) -> None:
        """Set a part."""
        self.db.send(
            "INSERT INTO brand (field, value, changed_at) VALUES (:field, :value, :now)"
            " ON CONFLICT (field) DO UPDATE SET value = :value, changed_at = :now",
            field=field.value,
            value=value,
            now=now,
        )

    def drop(self, field: BrandField) -> None:
        """Reset a part to the settings."""
        self.db.send("DELETE FROM brand WHERE field = :field", field=field.value)
