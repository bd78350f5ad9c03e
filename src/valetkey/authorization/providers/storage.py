"""Store of the sign-in providers that administrators added."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.model.account.provider import StoredProvider
from valetkey.authorization.storage.revision import touch
from valetkey.config.sections.federation import ProviderSettings
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant

_PROVIDERS = Record(StoredProvider, "providers")


class LinkedAccounts(Struct, frozen=True):
    """The number of linked accounts, and of those with no other method to sign in."""

    count: int
    alone: int


class StoredProviders(Struct, frozen=True):
    """A row for each provider."""

    db: Connection

    def take_turn(self) -> None:
        """Lock the providers against other changes, and make every process read them again."""
        touch(self.db)

    def all(self) -> Sequence[StoredProvider]:
        """Return every provider, oldest first."""
        return _PROVIDERS.all(self.db, "SELECT * FROM providers ORDER BY created_at, id")

    def find(self, provider_id: str) -> StoredProvider | None:
        """Return the provider with this id."""
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
        return {each.id: each.settings for each in self.all() if each.disabled_at is None}

    def kept_claims(self) -> frozenset[str]:
        """Return the claims that enabled providers keep, as `google:hd`."""
        found = self.enabled().values()
        return frozenset(f"{each.id}:{name}" for each in found for name in each.keep_claims)

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
