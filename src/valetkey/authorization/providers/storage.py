"""Stores of the sign-in providers that administrators added, and of linked accounts."""

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec import Struct

from valetkey.authorization.model.user import Uid
from valetkey.authorization.providers.model import Identity, StoredProvider
from valetkey.authorization.providers.settings import ProviderSettings
from valetkey.authorization.storage.revision import change_memberships, change_token_state, touch
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant

_PROVIDERS = Record(StoredProvider, "providers")
_IDENTITIES = Record(Identity, "identities")
_Claims = dict[str, object]


class LinkedAccounts(Struct, frozen=True):
    """The number of linked accounts, and of those with no other method to sign in."""

    count: int
    alone: int


class StoredProviders(Struct, frozen=True):
    """A row for each provider."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "StoredProviders":
        """Return the store in this transaction."""
        return StoredProviders(tx.db)

    def take_turn(self) -> None:
        """Lock the providers against other changes, and make every process read them again."""
        touch(self.db)

    def all(self) -> Sequence[StoredProvider]:
        """Return every provider, oldest first."""
        return _PROVIDERS.all(self.db, "SELECT * FROM providers ORDER BY created_at, id")

    def find(self, provider_id: str) -> StoredProvider | None:
        """Return the stored provider with this id; None also for one of the settings."""
        return _PROVIDERS.find(self.db, "SELECT * FROM providers WHERE id = :id", id=provider_id)

    def add(self, provider: StoredProvider) -> bool:
        """Store a provider. False if its id or its issuer is taken."""
        sql = "INSERT INTO providers (*) VALUES (*) ON CONFLICT DO NOTHING"
        return _PROVIDERS.run(self.db, sql, provider) == 1

    def change(self, provider: StoredProvider) -> bool:
        """Store a changed provider. False if there is none with its id."""
        return _PROVIDERS.run(self.db, "UPDATE providers SET * WHERE id = :id", provider) == 1

    def disable(self, provider_id: str, now: Instant) -> bool:
        """Disable a provider. Exactly one concurrent caller gets True."""
        disabled = self.db.run(
            "UPDATE providers SET disabled_at = :now WHERE id = :id AND disabled_at IS NULL",
            id=provider_id,
            now=now,
        )
        return disabled == 1

    def enable(self, provider_id: str) -> bool:
        """Enable a disabled provider. Exactly one concurrent caller gets True."""
        enabled = self.db.run(
            "UPDATE providers SET disabled_at = NULL WHERE id = :id AND disabled_at IS NOT NULL",
            id=provider_id,
        )
        return enabled == 1

    def remove(self, provider_id: str) -> bool:
        """Delete a provider. Exactly one concurrent caller gets True. Linked accounts stay."""
        return self.db.run("DELETE FROM providers WHERE id = :id", id=provider_id) == 1

    def enabled(self) -> Mapping[str, ProviderSettings]:
        """Return the enabled providers by id, as settings."""
        return {
            provider.id: provider.settings
            for provider in self.all()
            if provider.disabled_at is None
        }

    def linked(self, issuer: str, most: int) -> LinkedAccounts:
        """Count the accounts that are linked with a provider, at most `most`."""
        row = self.db.row(
            "SELECT count(*), coalesce(sum(alone), 0) FROM (SELECT CASE WHEN EXISTS"
            " (SELECT 1 FROM credentials WHERE credentials.uid = identities.uid"
            " AND credentials.kind IN ('password', 'passkey')) OR EXISTS"
            " (SELECT 1 FROM identities AS other WHERE other.uid = identities.uid"
            " AND other.issuer <> :issuer) THEN 0 ELSE 1 END AS alone"
            " FROM identities WHERE issuer = :issuer LIMIT :most) AS linked",
            issuer=issuer,
            most=most,
        )
        return LinkedAccounts(0, 0) if row is None else LinkedAccounts(int(row[0]), int(row[1]))

    def reseal(self, provider_id: str, before: str, sealed: str) -> bool:
        """Store the same secret, encrypted again. False if it changed meanwhile."""
        resealed = self.db.run(
            "UPDATE providers SET sealed = :sealed WHERE id = :id AND sealed = :before",
            id=provider_id,
            before=before,
            sealed=sealed,
        )
        return resealed == 1


class Identities(Struct, frozen=True):
    """Store linked accounts, one row each; an identity belongs to one user."""

    db: Connection
    random: Callable[[int], bytes]

    @staticmethod
    def of(tx: Transaction) -> "Identities":
        """Return the store in this transaction."""
        return Identities(tx.db, tx.random)

    def link(self, identity: Identity) -> bool:
        """Link it. False if it is linked already; exactly one concurrent caller gets True."""
        linked = _IDENTITIES.run(
            self.db,
            "INSERT INTO identities (*) VALUES (*) ON CONFLICT (issuer, subject) DO NOTHING",
            identity,
        )
        return linked == 1

    def find(self, issuer: str, subject: str) -> Identity | None:
        """Return the identity if it is linked."""
        return _IDENTITIES.find(
            self.db,
            "SELECT * FROM identities WHERE issuer = :issuer AND subject = :subject",
            issuer=issuer,
            subject=subject,
        )

    def of_user(self, uid: Uid) -> Sequence[Identity]:
        """Return all of one user, oldest first."""
        return _IDENTITIES.all(
            self.db,
            "SELECT * FROM identities WHERE uid = :uid ORDER BY linked_at, issuer, subject",
            uid=uid,
        )

    def touch(self, identity: Identity, now: Instant) -> bool:
        """Record that it was used now. False if it is no longer this user's."""
        touched = self.db.run(
            "UPDATE identities SET last_used_at = :now"
            " WHERE issuer = :issuer AND subject = :subject AND uid = :uid",
            now=now,
            issuer=identity.issuer,
            subject=identity.subject,
            uid=identity.uid,
        )
        return touched == 1

    def keep_claims(self, identity: Identity) -> None:
        """Replace what the provider said about the user, who is held alone, by these claims.

        Those of the user's other accounts at this provider are deleted.
        """
        changed = self.db.run(
            "UPDATE identities SET claims = CASE WHEN subject = :subject THEN :claims ELSE '' END"
            " WHERE uid = :uid AND issuer = :issuer"
            " AND claims <> CASE WHEN subject = :subject THEN :claims ELSE '' END",
            subject=identity.subject,
            claims=identity.claims,
            uid=identity.uid,
            issuer=identity.issuer,
        )
        if changed:
            self._change_claims(identity.uid)

    def claims_of(self, uid: Uid) -> Mapping[str, Mapping[str, object]]:
        """Return the kept claims of a user by issuer.

        The result can be kept while `User.membership_number` is the same.
        """
        rows = self.db.rows(
            "SELECT issuer, claims FROM identities WHERE uid = :uid AND claims <> ''", uid=uid
        )
        return {issuer: msgspec.json.decode(claims, type=_Claims) for issuer, claims in rows}

    def unlink(self, uid: Uid, issuer: str, subject: str) -> bool:
        """Unlink it, with its kept claims. False if it was not this user's, who is held alone."""
        gone = self.db.run(
            "DELETE FROM identities WHERE issuer = :issuer AND subject = :subject AND uid = :uid",
            issuer=issuer,
            subject=subject,
            uid=uid,
        )
        if gone:
            self._change_claims(uid)
        return gone == 1

    def _change_claims(self, uid: Uid) -> None:
        change_memberships(self.db, uid, self.random)
        change_token_state(self.db)


def delete_of_user(db: Connection, uid: Uid) -> None:
    """Unlink all accounts of a user whose account is deleted."""
    db.run("DELETE FROM identities WHERE uid = :uid", uid=uid)
