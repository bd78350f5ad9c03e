"""Pictures that users uploaded for their profile, re-encoded."""

from base64 import b64decode, b64encode

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection


class Pictures(Struct, frozen=True):
    """At most one row per user; deleted when the `picture` of the account changes."""

    db: Connection

    def keep(self, uid: Uid, name: str, image: bytes) -> None:
        """Store the picture under a new name, in place of the previous one."""
        self.db.run(
            "INSERT INTO user_pictures (uid, name, image) VALUES (:uid, :name, :image)"
            " ON CONFLICT (uid) DO UPDATE SET name = excluded.name, image = excluded.image",
            uid=uid,
            name=name,
            image=b64encode(image).decode("ascii"),
        )

    def name_of(self, uid: Uid) -> str:
        """Return the name of the user's picture; "" for none."""
        row = self.db.row("SELECT name FROM user_pictures WHERE uid = :uid", uid=uid)
        return "" if row is None else str(row[0])

    def image(self, name: str) -> bytes | None:
        """Return the picture with this name; None for that of a disabled account."""
        row = self.db.row(
            "SELECT p.image FROM user_pictures p JOIN users u ON u.uid = p.uid"
            " WHERE p.name = :name AND u.disabled_at IS NULL",
            name=name,
        )
        return None if row is None else b64decode(row[0])

    def forget(self, uid: Uid) -> None:
        """Delete the user's picture."""
        self.db.send("DELETE FROM user_pictures WHERE uid = :uid", uid=uid)
