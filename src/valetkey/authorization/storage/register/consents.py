"""Consents: what users allow clients, until they revoke it."""

import json
from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.grant import Consent
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record

_NOTHING: frozenset[str] = frozenset()


class Consents(Struct, frozen=True):
    """Store consents: one row for each user and client, of the user's generation of consents.

    Those of an earlier generation have ended; `end_outdated` deletes them in batches.
    """

    db: Connection

    def find(self, uid: Uid, client_id: str) -> Consent | None:
        """Return what the user allows the client, and the client's appearance at that time."""
        return CONSENTS.find(
            self.db,
            "SELECT * FROM consents WHERE uid = :uid AND client_id = :client_id"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)",
            uid=uid,
            client_id=client_id,
        )

    def clients_of(self, uid: Uid, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` clients with a consent of the user, newest first."""
        rows = self.db.rows(
            "SELECT client_id FROM consents WHERE uid = :uid"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)"
            " ORDER BY given_at DESC, client_id LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return [row[0] for row in rows]

    def of_user(self, uid: Uid, limit: int) -> Sequence[Consent]:
        """Return at most `limit` consents of the user, newest first."""
        return CONSENTS.all(
            self.db,
            "SELECT * FROM consents WHERE uid = :uid"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)"
            " ORDER BY given_at DESC, client_id LIMIT :limit",
            uid=uid,
            limit=limit,
        )

    def save(self, consent: Consent) -> str:
        """Insert or replace the consent, keeping the old id; return its id."""
        row = self.db.row(
            "INSERT INTO consents (uid, client_id, scope, appearance, given_at, claims, id,"
            " generation)"
            " VALUES (:uid, :client_id, :scope, :appearance, :given_at, :claims, :id,"
            " (SELECT consent_generation FROM users WHERE uid = :uid))"
            " ON CONFLICT (uid, client_id) DO UPDATE"
            " SET scope = :scope, appearance = :appearance, given_at = :given_at,"
            " claims = :claims, generation = excluded.generation,"
            " id = CASE WHEN consents.generation = excluded.generation"
            " THEN consents.id ELSE excluded.id END RETURNING id",
            **CONSENTS.values(consent),
        )
        return consent.id if row is None else str(row[0])

    def delete(self, uid: Uid, client_id: str) -> bool:
        """Delete the consent. False if there was none."""
        forgotten = self.db.run(
            "DELETE FROM consents WHERE uid = :uid AND client_id = :client_id"
            " AND generation = (SELECT consent_generation FROM users WHERE uid = :uid)",
            uid=uid,
            client_id=client_id,
        )
        return forgotten == 1

    def begin_generation(self, uid: Uid) -> None:
        """End every consent of the user."""
        self.db.send(
            "UPDATE users SET consent_generation = consent_generation + 1 WHERE uid = :uid",
            uid=uid,
        )

    def end_outdated(self, uid: Uid, limit: int) -> Sequence[str]:
        """Delete at most `limit` consents of an earlier generation; return their clients."""
        # The generation is compared again in the row: the user may just have consented again.
        rows = self.db.rows(
            "DELETE FROM consents WHERE uid = :uid"
            " AND generation < (SELECT consent_generation FROM users WHERE uid = :uid)"
            " AND client_id IN (SELECT client_id FROM consents WHERE uid = :uid AND generation <"
            " (SELECT consent_generation FROM users WHERE uid = :uid) LIMIT :limit)"
            " RETURNING client_id",
            uid=uid,
            limit=limit,
        )
        return sorted(row[0] for row in rows)


def _claims(text: str) -> frozenset[str]:
    return _NOTHING if text == "[]" else frozenset(json.loads(text))


CONSENTS = Record(
    Consent,
    "consents",
    claims=Column(read=_claims, write=lambda claims: json.dumps(sorted(claims))),
)
