"""Store of passkeys, authenticator apps and recovery codes.

Passwords are in `Users`.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.model.account.factors import (
    Authenticator,
    FactorKind,
    Passkey,
    RecoveryCodes,
)
from valetkey.authorization.model.account.user import Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
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
