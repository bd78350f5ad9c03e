"""Stores of second factors and remembered devices, and the limits on attempts to sign in.

Passwords are in `Users`.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.model.user import (
    Authenticator,
    FactorKind,
    Passkey,
    RecoveryCodes,
    RememberedDevice,
    Uid,
)
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import AHEAD, Instant, Lifetime
from valetkey.kernel.secret import Fingerprint, from_base64url, to_base64url


class _PasskeyData(msgspec.Struct):
    """The stored fields of a passkey other than its id."""

    public: str
    synced: bool


class Credentials(Struct, frozen=True):
    """Add, find, use and remove credentials. A method that uses one says which caller won."""

    db: Connection

    def kinds_of(self, uid: Uid) -> frozenset[FactorKind]:
        """Return which kinds of credentials a user has, the password among them."""
        rows = self.db.rows("SELECT DISTINCT kind FROM credentials WHERE uid = :uid", uid=uid)
        return frozenset(FactorKind(row[0]) for row in rows)

    def add_passkey(self, passkey: Passkey) -> bool:
        """Insert it; False if it is registered already."""
        kept = _PasskeyData(to_base64url(passkey.public), passkey.synced)
        added = self.db.run(
            "INSERT INTO credentials"
            " (id, uid, kind, data, last_step, created_at, name, handle, last_used_at)"
            " VALUES (:id, :uid, 'passkey', :data, :counter, :created_at, :name, :handle,"
            " :last_used_at) ON CONFLICT DO NOTHING",
            id=passkey.id,
            uid=passkey.uid,
            data=msgspec.json.encode(kept).decode(),
            counter=passkey.counter,
            created_at=passkey.created_at,
            name=passkey.name,
            handle=passkey.handle,
            last_used_at=passkey.last_used_at,
        )
        return added == 1

    def passkeys_of(self, uid: Uid) -> Sequence[Passkey]:
        """Return a user's passkeys, oldest first."""
        return _PASSKEYS.all(
            self.db,
            "SELECT * FROM credentials WHERE uid = :uid AND kind = 'passkey' ORDER BY created_at,"
            " id",
            uid=uid,
        )

    def find_passkey(self, handle: str) -> Passkey | None:
        """Return the passkey with this credential id, of any user."""
        return _PASSKEYS.find(
            self.db,
            "SELECT * FROM credentials WHERE kind = 'passkey' AND handle = :handle",
            handle=handle,
        )

    def use_passkey(self, passkey: Passkey, counter: int, now: Instant) -> bool:
        """Record its use; False if it is gone, or was used since it was read."""
        used = self.db.run(
            "UPDATE credentials SET last_step = :counter, last_used_at = :now"
            " WHERE id = :id AND kind = 'passkey' AND last_step = :before",
            id=passkey.id,
            counter=counter,
            before=passkey.counter,
            now=now,
        )
        return used == 1

    def rename_passkey(self, uid: Uid, passkey_id: str, name: str) -> bool:
        """Rename it; False if this user has no such passkey."""
        renamed = self.db.run(
            "UPDATE credentials SET name = :name"
            " WHERE id = :id AND uid = :uid AND kind = 'passkey'",
            id=passkey_id,
            uid=uid,
            name=name,
        )
        return renamed == 1

    def remove_passkey(self, uid: Uid, passkey_id: str) -> bool:
        """Delete it; False if this user has no such passkey."""
        removed = self.db.run(
            "DELETE FROM credentials WHERE id = :id AND uid = :uid AND kind = 'passkey'",
            id=passkey_id,
            uid=uid,
        )
        return removed == 1

    def add_authenticator(self, authenticator: Authenticator, step: int) -> bool:
        """Insert it, codes up to `step` already used; False if this user has one."""
        added = self.db.run(
            "INSERT INTO credentials (id, uid, kind, data, last_step, created_at)"
            " VALUES (:id, :uid, 'totp', :data, :step, :created_at) ON CONFLICT DO NOTHING",
            id=authenticator.id,
            uid=authenticator.uid,
            data=authenticator.sealed,
            step=step,
            created_at=authenticator.created_at,
        )
        return added == 1

    def authenticator_of(self, uid: Uid) -> Authenticator | None:
        """Return a user's authenticator app."""
        return _AUTHENTICATORS.find(
            self.db, "SELECT * FROM credentials WHERE uid = :uid AND kind = 'totp'", uid=uid
        )

    def spend_step(self, authenticator_id: str, step: int, now: Instant) -> bool:
        """Use the code of this step; exactly one caller gets True, and none for an earlier step."""
        spent = self.db.run(
            "UPDATE credentials SET last_step = :step, last_used_at = :now"
            " WHERE id = :id AND kind = 'totp' AND last_step < :step",
            id=authenticator_id,
            step=step,
            now=now,
        )
        return spent == 1

    def reseal(self, authenticator_id: str, before: str, after: str) -> bool:
        """Replace the encrypted secret; False if it has changed meanwhile."""
        resealed = self.db.run(
            "UPDATE credentials SET data = :after"
            " WHERE id = :id AND kind = 'totp' AND data = :before",
            id=authenticator_id,
            before=before,
            after=after,
        )
        return resealed == 1

    def authenticators(self, after: str, limit: int) -> Sequence[tuple[str, str]]:
        """Return at most `limit` ids and encrypted secrets in order of id, after an id."""
        rows = self.db.rows(
            "SELECT id, data FROM credentials WHERE kind = 'totp' AND id > :after"
            " ORDER BY id LIMIT :limit",
            after=after,
            limit=limit,
        )
        return [(id_, sealed) for id_, sealed in rows]

    def remove_authenticator(self, uid: Uid) -> bool:
        """Delete it; False if there was none."""
        removed = self.db.run("DELETE FROM credentials WHERE uid = :uid AND kind = 'totp'", uid=uid)
        return removed == 1

    def replace_recovery_codes(
        self, uid: Uid, codes: Sequence[tuple[str, Fingerprint]], now: Instant
    ) -> None:
        """Replace all recovery codes by these fingerprints, each with an id."""
        self.remove_recovery_codes(uid)
        for code_id, fingerprint in codes:
            self.db.send(
                "INSERT INTO credentials (id, uid, kind, data, created_at, handle)"
                " VALUES (:id, :uid, 'recovery_code', '', :now, :handle)",
                id=code_id,
                uid=uid,
                now=now,
                handle=fingerprint,
            )

    def spend_recovery_code(self, uid: Uid, fingerprint: Fingerprint) -> bool:
        """Use it. Exactly one concurrent caller gets True."""
        spent = self.db.run(
            "DELETE FROM credentials"
            " WHERE kind = 'recovery_code' AND handle = :handle AND uid = :uid",
            handle=fingerprint,
            uid=uid,
        )
        return spent == 1

    def recovery_codes_of(self, uid: Uid) -> RecoveryCodes:
        """Return how many are left."""
        row = self.db.row(
            "SELECT count(*), min(created_at) FROM credentials"
            " WHERE uid = :uid AND kind = 'recovery_code'",
            uid=uid,
        )
        return RecoveryCodes(0, None) if row is None else RecoveryCodes(int(row[0]), row[1])

    def remove_recovery_codes(self, uid: Uid) -> int:
        """Delete all of them; return how many there were."""
        return self.db.run(
            "DELETE FROM credentials WHERE uid = :uid AND kind = 'recovery_code'", uid=uid
        )

    def remove_factors(self, uid: Uid) -> int:
        """Delete everything but the password; return how much there was."""
        return self.db.run(
            "DELETE FROM credentials WHERE uid = :uid AND kind <> 'password'", uid=uid
        )

    def remove_password(self, uid: Uid) -> bool:
        """Delete the password of a user who has a passkey; False for any other user."""
        removed = self.db.run(
            "DELETE FROM credentials WHERE uid = :uid AND kind = 'password' AND EXISTS"
            " (SELECT 1 FROM credentials AS other WHERE other.uid = :uid"
            " AND other.kind = 'passkey')",
            uid=uid,
        )
        return removed == 1


_AUTHENTICATORS = Record(Authenticator, "credentials", sealed=Column("data"))


def _passkey(
    id: str,
    uid: Uid,
    name: str,
    handle: str,
    data: str,
    last_step: int,
    created_at: Instant,
    last_used_at: Instant | None,
) -> Passkey:
    kept = msgspec.json.decode(data, type=_PasskeyData)
    public = from_base64url(kept.public) or b""
    return Passkey(id, uid, name, handle, public, kept.synced, last_step, created_at, last_used_at)


_PASSKEYS = Record(_passkey, "credentials")


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

    def of_user(self, uid: Uid, now: Instant) -> Sequence[RememberedDevice]:
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


_UNIT = 1_000_000
"""One attempt, in the units in which buckets leak."""

_ALTOGETHER = 10
"""Attempts that may be begun, as a multiple of those that may remain unfinished."""


class Limit(Struct, frozen=True):
    """At most `attempts` at once; the bucket is empty again after `window`."""

    attempts: int
    window: Lifetime

    @property
    def leak(self) -> int:
        """Return how much leaks in a second."""
        return max(1, self.attempts * _UNIT // self.window)

    @property
    def emptied(self) -> int:
        """Return the seconds after which a full bucket is empty: the window, rounded up."""
        return -(-self.attempts * _UNIT // self.leak)


class Throttles(Struct, frozen=True):
    """Store rate limits as leaky buckets. Attempts are counted before they are made."""

    db: Connection

    def take(self, bucket: str, limit: Limit, now: Instant) -> int:
        """Count one attempt and return 0; if the bucket is full, return the seconds to wait."""
        # After a clock was set back, users must not wait until the time it showed before.
        self.db.send(
            "UPDATE throttles SET level = 0, changed_at = :now"
            " WHERE bucket = :bucket AND changed_at > :latest",
            bucket=bucket,
            now=now,
            latest=now + AHEAD,
        )
        # One statement, so that no more concurrent attempts than the limit pass.
        taken = self.db.row(
            "INSERT INTO throttles (bucket, level, changed_at, lifetime)"
            " VALUES (:bucket, :unit, :now, :lifetime)"
            " ON CONFLICT (bucket) DO UPDATE SET level = :unit +"
            " CASE WHEN throttles.level > (:now - throttles.changed_at) * :leak"
            " THEN throttles.level - (:now - throttles.changed_at) * :leak ELSE 0 END,"
            " changed_at = :now, lifetime = :lifetime"
            " WHERE throttles.level - (:now - throttles.changed_at) * :leak <= :room"
            " RETURNING level",
            bucket=bucket,
            unit=_UNIT,
            now=now,
            leak=limit.leak,
            lifetime=limit.emptied,
            room=(limit.attempts - 1) * _UNIT,
        )
        if taken is not None:
            return 0
        row = self.db.row(
            "SELECT level, changed_at FROM throttles WHERE bucket = :bucket", bucket=bucket
        )
        if row is None:
            return 1
        above = row[0] - (now - row[1]) * limit.leak - (limit.attempts - 1) * _UNIT
        return max(1, -(-int(above) // limit.leak))

    def give_back(self, *buckets: str) -> None:
        """Uncount a successful attempt in each of the buckets."""
        for bucket in buckets:
            self.db.send(
                "UPDATE throttles SET level = level - :unit"
                " WHERE bucket = :bucket AND level >= :unit",
                bucket=bucket,
                unit=_UNIT,
            )

    def begin(self, bucket: str, limit: Limit, now: Instant) -> int:
        """Count an attempt that may be finished later and return 0; or the seconds to wait.

        `limit` is for attempts that are not finished. Ten times as many may be begun, so that a
        caller who can finish any number is limited, too.
        """
        most = Limit(_ALTOGETHER * limit.attempts, limit.window)
        if wait := self.take(_all_of(bucket), most, now):
            return wait
        wait = self.take(bucket, limit, now)
        if wait:
            self.give_back(_all_of(bucket))
        return wait

    def finish(self, bucket: str, begun_at: Instant, window: Lifetime, now: Instant) -> None:
        """Uncount an attempt that was begun at `begun_at` and is finished now.

        Call it once, in the transaction in which exactly one caller finishes the attempt. After
        `window` it no longer counts anyway, and giving it back would admit another one.
        """
        if now < begun_at + window:
            self.give_back(bucket)

    def cancel(self, bucket: str) -> None:
        """Uncount an attempt altogether: nothing was done, or an administrator vouched for it."""
        self.give_back(_all_of(bucket), bucket)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` buckets that are empty by the clock of every server."""
        # Checked again outside: an attempt may have been counted between choosing and deleting.
        return self.db.run(
            "DELETE FROM throttles WHERE bucket IN"
            " (SELECT bucket FROM throttles WHERE changed_at + lifetime <= :before"
            " ORDER BY changed_at + lifetime LIMIT :limit)"
            " AND changed_at + lifetime <= :before",
            before=now - AHEAD,
            limit=limit,
        )


def _all_of(bucket: str) -> str:
    return f"all_{bucket}"
