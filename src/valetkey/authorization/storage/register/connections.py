"""Users connected with an app, for the app's administrators."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.storage.register.consents import CONSENTS
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Connections:
    """The consents of one client, and when they were used."""

    db: Connection

    def count(self, client_id: str) -> int:
        """Return how many users have a consent for it."""
        row = self.db.row(
            "SELECT count(*) FROM consents c JOIN users u ON u.uid = c.uid"
            " WHERE c.client_id = :client_id AND c.generation = u.consent_generation",
            client_id=client_id,
        )
        return 0 if row is None else int(row[0])

    def page(
        self, client_id: str, before: Instant, before_uid: int, limit: int
    ) -> Sequence[Consent]:
        """Return at most `limit` consents, the newest first, before a position."""
        return CONSENTS.all(
            self.db,
            "SELECT * FROM consents JOIN users ON users.uid = consents.uid"
            " WHERE consents.client_id = :client_id AND (consents.given_at < :before"
            " OR (consents.given_at = :before AND consents.uid < :before_uid))"
            " AND consents.generation = users.consent_generation"
            " ORDER BY consents.given_at DESC, consents.uid DESC LIMIT :limit",
            client_id=client_id,
            before=before,
            before_uid=before_uid,
            limit=limit,
        )

    def last_used(self, client_id: str, uid: Uid, now: Instant) -> Instant | None:
        """Return when it last got a token for this user by a live grant; or None."""
        row = self.db.row(
            "SELECT max(last_used_at) FROM grants WHERE uid = :uid AND client_id = :client_id"
            " AND revoked_at IS NULL AND expires_at > :now",
            uid=uid,
            client_id=client_id,
            now=now,
        )
        return None if row is None or row[0] is None else Instant(row[0])
