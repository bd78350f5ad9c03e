"""Remembered devices: browsers that skip the second factor."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.factors import RememberedDevice
from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class RememberedDevices(Struct, frozen=True):
    """Store remembered devices; a device's cookie changes with every use."""

    db: Connection

    def remember(self, device: RememberedDevice) -> None:
        """Insert the device."""
        _DEVICES.send(
            self.db,
            "INSERT INTO remembered_devices (*) VALUES (*)",
            device,
        )

    def find(self, device_id: str) -> RememberedDevice | None:
        """Return the device, expired or not."""
        return _DEVICES.find(
            self.db,
            "SELECT * FROM remembered_devices WHERE id = :id",
            id=device_id,
        )

    def of(self, uid: Uid, now: Instant) -> Sequence[RememberedDevice]:
        """Return a user's devices that have not expired, last used first."""
        return _DEVICES.all(
            self.db,
            "SELECT * FROM remembered_devices WHERE uid = :uid AND expires_at > :now"
            " ORDER BY changed_at DESC, id",
            uid=uid,
            now=now,
        )

    def exchange(
        self, device_id: str, before: Fingerprint, after: Fingerprint, now: Instant
    ) -> bool:
        """Replace the cookie of the device; exactly one concurrent caller gets True."""
        exchanged = self.db.run(
            "UPDATE remembered_devices SET fingerprint = :after, previous = :before,"
            " changed_at = :now WHERE id = :id AND fingerprint = :before AND expires_at > :now",
            id=device_id,
            before=before,
            after=after,
            now=now,
        )
        return exchanged == 1

    def delete(self, uid: Uid, device_id: str) -> bool:
        """Forget this device; False if the user has no such device."""
        forgotten = self.db.run(
            "DELETE FROM remembered_devices WHERE id = :id AND uid = :uid", id=device_id, uid=uid
        )
        return forgotten == 1

    def delete_all(self, uid: Uid) -> int:
        """Forget all devices; return how many there were."""
        return self.db.run("DELETE FROM remembered_devices WHERE uid = :uid", uid=uid)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` that have expired."""
        return self.db.run(
            "DELETE FROM remembered_devices WHERE id IN"
            " (SELECT id FROM remembered_devices WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_DEVICES = Record(RememberedDevice, "remembered_devices")
