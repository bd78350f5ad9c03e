"""Store of what an operator declares: attributes of accounts, and claims of tokens."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.claims.model import DeclaredClaim
from valetkey.authorization.model.user import Attribute
from valetkey.authorization.storage.administration import Applied
from valetkey.authorization.storage.revision import hold_all, touch
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class Declarations(Struct, frozen=True):
    """Store declared attributes and claims. Changes bump the revision and block issuing."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "Declarations":
        """Return the store in this transaction."""
        return Declarations(tx.db)

    def hold_all(self) -> None:
        """Block issuing and other changes of declarations until the transaction ends."""
        hold_all(self.db)
        touch(self.db)

    def attributes(self) -> Sequence[Attribute]:
        """Return the declared attributes by name; at most `MOST_ATTRIBUTES`."""
        return [Attribute.decode(text) for text in self._all("attribute")]

    def save_attribute(self, attribute: Attribute, now: Instant) -> None:
        """Declare or change an attribute. Call `hold_all` first."""
        self._put("attribute", attribute.name, attribute.encode(), now)

    def remove_attribute(self, name: str) -> bool:
        """Remove a declared attribute; its values stay. Call `hold_all` first."""
        return self._remove("attribute", name)

    def claims(self) -> Sequence[DeclaredClaim]:
        """Return the declared claims by name; at most `MOST_CLAIMS`."""
        return [DeclaredClaim.decode(text) for text in self._all("claim")]

    def save_claim(self, claim: DeclaredClaim, now: Instant) -> None:
        """Declare or change a claim. Call `hold_all` first."""
        self._put("claim", claim.name, claim.encode(), now)

    def remove_claim(self, name: str) -> bool:
        """Remove a declared claim. Call `hold_all` first."""
        return self._remove("claim", name)

    def _all(self, kind: str) -> Sequence[str]:
        rows = self.db.rows(
            "SELECT declaration FROM declarations WHERE kind = :kind ORDER BY name", kind=kind
        )
        return [str(row[0]) for row in rows]

    def _put(self, kind: str, name: str, declaration: str, now: Instant) -> None:
        self.db.run(
            "INSERT INTO declarations (kind, name, declaration, changed_at)"
            " VALUES (:kind, :name, :declaration, :now) ON CONFLICT (kind, name)"
            " DO UPDATE SET declaration = :declaration, changed_at = :now",
            kind=kind,
            name=name,
            declaration=declaration,
            now=now,
        )

    def _remove(self, kind: str, name: str) -> bool:
        removed = self.db.run(
            "DELETE FROM declarations WHERE kind = :kind AND name = :name", kind=kind, name=name
        )
        Applied(self.db).release(kind, name)
        return removed == 1
