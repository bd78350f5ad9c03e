"""Stores of the settings and of the brand that administrators changed while the server ran."""

from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping

from msgspec import Struct

from valetkey.authorization.storage.revision import touch
from valetkey.config.sections.portal import BrandField
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class StoredSettings(Struct, frozen=True):
    """A row for each changed setting, with its value as in the environment."""

    db: Connection

    def take_turn(self) -> None:
        """Lock the settings against other changes, and make every process read them again."""
        touch(self.db)

    def all(self) -> Mapping[str, str]:
        """Return the stored values by path, also those of paths that this version does not know."""
        return dict(self.db.rows("SELECT path, value FROM stored_settings ORDER BY path"))

    def set(self, path: str, value: str, now: Instant) -> None:
        """Store a value."""
        self.db.send(
            "INSERT INTO stored_settings (path, value, changed_at) VALUES (:path, :value, :now)"
            " ON CONFLICT (path) DO UPDATE SET value = :value, changed_at = :now",
            path=path,
            value=value,
            now=now,
        )

    def drop(self, path: str) -> bool:
        """Delete a value. Exactly one concurrent caller gets True."""
        return self.db.run("DELETE FROM stored_settings WHERE path = :path", path=path) == 1


class BrandChanges(Struct, frozen=True):
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

    def set(self, field: BrandField, value: str, now: Instant) -> None:
        """Set a part."""
        self.db.send(
            "INSERT INTO brand (field, value, changed_at) VALUES (:field, :value, :now)"
            " ON CONFLICT (field) DO UPDATE SET value = :value, changed_at = :now",
            field=field.value,
            value=value,
            now=now,
        )

    def store_logo(self, name: str, image: bytes, now: Instant) -> None:
        """Store an image under the name of its content."""
        self.db.send(
            "INSERT INTO brand_logos (name, image, changed_at) VALUES (:name, :image, :now)"
            " ON CONFLICT (name) DO NOTHING",
            name=name,
            image=b64encode(image).decode("ascii"),
            now=now,
        )

    def logo(self, name: str) -> bytes | None:
        """Return the uploaded image of that name."""
        row = self.db.row("SELECT image FROM brand_logos WHERE name = :name", name=name)
        return None if row is None else b64decode(row[0])

    def drop_logos(self, but: Collection[str]) -> None:
        """Delete the uploaded images that have none of these names."""
        for (name,) in self.db.rows("SELECT name FROM brand_logos"):
            if name not in but:
                self.db.send("DELETE FROM brand_logos WHERE name = :name", name=name)

    def drop(self, field: BrandField) -> None:
        """Reset a part to the settings."""
        self.db.send("DELETE FROM brand WHERE field = :field", field=field.value)
