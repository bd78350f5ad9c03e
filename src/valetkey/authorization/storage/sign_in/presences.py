"""A session, its user and the user's consent for one client, in one query."""

from msgspec import Struct

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.consent import Consent
from valetkey.authorization.model.session import Session
from valetkey.authorization.storage.register.consents import consent_of
from valetkey.authorization.storage.sign_in.sessions import session_of
from valetkey.authorization.storage.users import user_of
from valetkey.database.engine import Connection, Row
from valetkey.kernel.secret import Fingerprint


class Presence(Struct, frozen=True):
    """A session, ended or not, and its user, disabled or not.

    `consent` is the user's for the requested client, `told` whether that client was told of the
    session.
    """

    session: Session
    user: User
    consent: Consent | None
    told: bool


class Presences(Struct, frozen=True):
    """One statement instead of four: every authorization request runs it twice."""

    db: Connection

    def find(self, fingerprint: Fingerprint, client_id: str) -> Presence | None:
        """Return the presence of a cookie. A `client_id` of "" asks about no client."""
        row = self.db.row(
            "SELECT s.id, s.uid, s.auth_time, s.methods, s.user_agent, s.created_at,"
            " s.last_seen_at, s.expires_at, COALESCE(s.ended_at,"
            " CASE WHEN s.generation <> u.session_generation THEN s.last_seen_at END),"
            " s.proved_at, s.proved_by, s.device_id,"
            " u.uid, u.username, u.email, u.email_verified_at, u.name, u.created_at,"
            " u.changed_at, u.disabled_at, u.claims, u.role,"
            " EXISTS (SELECT 1 FROM memberships WHERE uid = s.uid)"
            " OR EXISTS (SELECT 1 FROM developers WHERE uid = s.uid), u.generation,"
            " c.scope, c.appearance, c.given_at, c.claims, c.id, p.client_id"
            " FROM sessions s JOIN users u ON u.uid = s.uid"
            " LEFT JOIN consents c ON c.uid = s.uid AND c.client_id = :client_id"
            " AND c.generation = u.consent_generation"
            " LEFT JOIN participants p ON p.session_id = s.id AND p.client_id = :client_id"
            " WHERE s.fingerprint = :fingerprint",
            fingerprint=fingerprint,
            client_id=client_id,
        )
        return None if row is None else _presence(row, client_id)

    def find_by_id(self, session_id: str, client_id: str) -> Presence | None:
        """Return the presence of a session's public id."""
        row = self.db.row(
            "SELECT s.id, s.uid, s.auth_time, s.methods, s.user_agent, s.created_at,"
            " s.last_seen_at, s.expires_at, COALESCE(s.ended_at,"
            " CASE WHEN s.generation <> u.session_generation THEN s.last_seen_at END),"
            " s.proved_at, s.proved_by, s.device_id,"
            " u.uid, u.username, u.email, u.email_verified_at, u.name, u.created_at,"
            " u.changed_at, u.disabled_at, u.claims, u.role,"
            " EXISTS (SELECT 1 FROM memberships WHERE uid = s.uid)"
            " OR EXISTS (SELECT 1 FROM developers WHERE uid = s.uid), u.generation,"
            " c.scope, c.appearance, c.given_at, c.claims, c.id, p.client_id"
            " FROM sessions s JOIN users u ON u.uid = s.uid"
            " LEFT JOIN consents c ON c.uid = s.uid AND c.client_id = :client_id"
            " AND c.generation = u.consent_generation"
            " LEFT JOIN participants p ON p.session_id = s.id AND p.client_id = :client_id"
            " WHERE s.id = :id",
            id=session_id,
            client_id=client_id,
        )
        return None if row is None else _presence(row, client_id)


def _presence(row: Row, client_id: str) -> Presence:
    session = session_of(row)
    consent = None if row[24] is None else consent_of(session.uid, client_id, row[24:29])
    return Presence(session, user_of(row[12:24]), consent, row[29] is not None)
