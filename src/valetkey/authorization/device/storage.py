"""Store of device codes: each is decided once, polled and redeemed once before it expires."""

import msgspec
from msgspec import Struct

from valetkey.authorization.device.model import DeviceCode
from valetkey.authorization.model.api import ApiGeneration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint

_STEP = 5
"""Seconds that a client which polls too soon has to wait longer (RFC 8628 section 3.5)."""

_LONGEST = 60
"""Seconds between polls that a client never has to exceed."""

_DEFAULT_API = "[]"

_TOLERANCE = 1
"""Seconds that a poll may be early: times are whole seconds, and requests overtake each other."""


class DeviceCodes(Struct, frozen=True):
    """Store device authorizations, one row each."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "DeviceCodes":
        """Return the store in this transaction."""
        return DeviceCodes(tx.db)

    def issue(self, code: DeviceCode) -> bool:
        """Insert the code. False if its user code is already in use."""
        issued = _DEVICE_CODES.run(
            self.db,
            "INSERT INTO device_codes (*) VALUES (*) ON CONFLICT DO NOTHING",
            code,
        )
        return issued == 1

    def find(self, fingerprint: Fingerprint) -> DeviceCode | None:
        """Return the device code, in any state."""
        return _DEVICE_CODES.find(
            self.db,
            "SELECT * FROM device_codes WHERE fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )

    def find_by_user_code(self, user_code: Fingerprint) -> DeviceCode | None:
        """Return the device code of a user code, in any state."""
        return _DEVICE_CODES.find(
            self.db,
            "SELECT * FROM device_codes WHERE user_code = :user_code",
            user_code=user_code,
        )

    def poll(self, fingerprint: Fingerprint, now: Instant) -> bool:
        """Record a poll. False if it came too soon: then the interval grows by five seconds.

        Of concurrent polls at most one is in time.
        """
        in_time = self.db.run(
            "UPDATE device_codes SET polled_at = :now WHERE fingerprint = :fingerprint"
            " AND polled_at + poll_interval - :tolerance <= :now",
            fingerprint=fingerprint,
            now=now,
            tolerance=_TOLERANCE,
        )
        if in_time:
            return True
        self.db.send(
            "UPDATE device_codes SET polled_at = :now, poll_interval = CASE"
            " WHEN poll_interval + :step > :longest THEN :longest ELSE poll_interval + :step END"
            " WHERE fingerprint = :fingerprint",
            fingerprint=fingerprint,
            now=now,
            step=_STEP,
            longest=_LONGEST,
        )
        return False

    def allow(self, fingerprint: Fingerprint, payload: str, now: Instant) -> bool:
        """Record what the user allowed; of concurrent decisions exactly one gets True."""
        allowed = self.db.run(
            "UPDATE device_codes SET state = 'allowed', payload = :payload"
            " WHERE fingerprint = :fingerprint AND state = 'pending' AND expires_at > :now",
            fingerprint=fingerprint,
            payload=payload,
            now=now,
        )
        return allowed == 1

    def deny(self, fingerprint: Fingerprint, now: Instant) -> bool:
        """Record that the user denied it; of concurrent decisions exactly one gets True."""
        denied = self.db.run(
            "UPDATE device_codes SET state = 'denied'"
            " WHERE fingerprint = :fingerprint AND state = 'pending' AND expires_at > :now",
            fingerprint=fingerprint,
            now=now,
        )
        return denied == 1

    def redeem(self, fingerprint: Fingerprint, now: Instant) -> bool:
        """Redeem an allowed code; of concurrent callers exactly one gets True."""
        redeemed = self.db.run(
            "UPDATE device_codes SET state = 'redeemed'"
            " WHERE fingerprint = :fingerprint AND state = 'allowed' AND expires_at > :now",
            fingerprint=fingerprint,
            now=now,
        )
        return redeemed == 1

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` codes that expired before `before`."""
        return self.db.run(
            "DELETE FROM device_codes WHERE fingerprint IN"
            " (SELECT fingerprint FROM device_codes WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=before,
            limit=limit,
        )


def _apis(text: str) -> tuple[ApiGeneration, ...]:
    return () if text == _DEFAULT_API else msgspec.json.decode(text, type=tuple[ApiGeneration, ...])


_DEVICE_CODES = Record(
    DeviceCode,
    "device_codes",
    apis=Column(read=_apis, write=lambda apis: msgspec.json.encode(apis).decode()),
)


def delete_all(db: Connection, now: Instant) -> None:
    """Delete every device code."""
    del now
    db.send("DELETE FROM device_codes")
