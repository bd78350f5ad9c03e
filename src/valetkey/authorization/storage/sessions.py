"""Store of browser sessions, and of those signed in to the administration."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Session, Uid, User
from valetkey.authorization.storage.grants import CONSENTS
from valetkey.authorization.storage.users import USERS
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class Sessions(Struct, frozen=True):
    """Sessions, found by the fingerprint of their cookie."""

    db: Connection

    def start(self, session: Session, fingerprint: Fingerprint) -> None:
        """Insert a session."""
        SESSIONS.send(
            self.db,
            "INSERT INTO sessions (*, fingerprint, generation) VALUES (*, :fingerprint,"
            " (SELECT session_generation FROM users WHERE uid = :uid))",
            session,
            fingerprint=fingerprint,
        )

    def find(self, fingerprint: Fingerprint) -> Session | None:
        """Return the session of a cookie, ended or not."""
        return SESSIONS.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " WHERE sessions.fingerprint = :fingerprint",
            fingerprint=fingerprint,
        )

    def find_by_id(self, session_id: str) -> Session | None:
        """Return the session with this public id, ended or not."""
        return SESSIONS.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid WHERE sessions.id = :id",
            id=session_id,
        )

    def live_of(self, uid: Uid, now: Instant) -> Sequence[Session]:
        """Return the user's sessions that have not ended."""
        return SESSIONS.all(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " WHERE sessions.uid = :uid AND sessions.ended_at IS NULL"
            " AND sessions.expires_at > :now AND sessions.generation = users.session_generation"
            " ORDER BY sessions.created_at, sessions.id",
            uid=uid,
            now=now,
        )

    def active_of(self, uid: Uid, seen_after: Instant, now: Instant) -> Sequence[Session]:
        """Return the sessions of `live_of` that were used after `seen_after`, as pages show them.

        The others have ended unused, but are not deleted yet.
        """
        return [session for session in self.live_of(uid, now) if session.last_seen_at > seen_after]

    def outdated_of(self, uid: Uid, now: Instant, limit: int) -> Sequence[Session]:
        """Return at most `limit` of an earlier generation that were not ended one by one."""
        return SESSIONS.all(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " WHERE sessions.uid = :uid AND sessions.ended_at IS NULL"
            " AND sessions.expires_at > :now AND sessions.generation < users.session_generation"
            " ORDER BY sessions.id LIMIT :limit",
            uid=uid,
            now=now,
            limit=limit,
        )

    def live_of_device(
        self, uid: Uid, device_id: str, now: Instant, limit: int
    ) -> Sequence[Session]:
        """Return at most `limit` sessions of the user that this remembered device signed in."""
        return SESSIONS.all(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " WHERE sessions.uid = :uid AND sessions.device_id = :device_id"
            " AND sessions.ended_at IS NULL AND sessions.expires_at > :now"
            " AND sessions.generation = users.session_generation ORDER BY sessions.id LIMIT :limit",
            uid=uid,
            device_id=device_id,
            now=now,
            limit=limit,
        )

    def count_live(self, uid: Uid, now: Instant) -> int:
        """Return how many sessions of the user have not ended."""
        row = self.db.row(
            "SELECT COUNT(*) FROM sessions WHERE uid = :uid AND ended_at IS NULL"
            " AND expires_at > :now"
            " AND generation = (SELECT session_generation FROM users WHERE uid = :uid)",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])

    def begin_generation(self, uid: Uid, *, keep: str = "") -> None:
        """End every session of the user except the one with the id `keep`."""
        self.db.send(
            "UPDATE users SET session_generation = session_generation + 1 WHERE uid = :uid", uid=uid
        )
        if keep:
            self.db.send(
                "UPDATE sessions SET generation ="
                " (SELECT session_generation FROM users WHERE uid = :uid)"
                " WHERE id = :id AND uid = :uid",
                id=keep,
                uid=uid,
            )

    def touch(self, session_id: str, address: str, now: Instant) -> None:
        """Record that the session was used, from this IP address."""
        self.db.send(
            "UPDATE sessions SET last_seen_at = :now, last_seen_from = :address"
            " WHERE id = :id AND last_seen_at < :now",
            id=session_id,
            address=address,
            now=now,
        )

    def renew(self, session: Session, before: Fingerprint, after: Fingerprint) -> bool:
        """Update the session and replace its cookie `before` by `after`.

        Exactly one concurrent caller with one cookie gets True, and none once it has ended.
        """
        renewed = self.db.run(
            "UPDATE sessions SET fingerprint = :after, auth_time = :auth_time, methods = :methods,"
            " user_agent = :user_agent, last_seen_at = :last_seen_at, expires_at = :expires_at,"
            " proved_at = :proved_at, proved_by = :proved_by, device_id = :device_id,"
            " signed_in_from = :signed_in_from, last_seen_from = :last_seen_from"
            " WHERE id = :id AND fingerprint = :before AND ended_at IS NULL",
            id=session.id,
            before=before,
            after=after,
            auth_time=session.auth_time,
            methods=" ".join(session.methods),
            user_agent=session.user_agent,
            last_seen_at=session.last_seen_at,
            expires_at=session.expires_at,
            proved_at=session.proved_at,
            proved_by=" ".join(session.proved_by),
            device_id=session.device_id,
            signed_in_from=session.signed_in_from,
            last_seen_from=session.last_seen_from,
        )
        return renewed == 1

    def end(self, session_id: str, now: Instant) -> bool:
        """End it. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE sessions SET ended_at = :now WHERE id = :id AND ended_at IS NULL",
            id=session_id,
            now=now,
        )
        return ended == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` sessions that expired, ended or not."""
        return self.db.run(
            "DELETE FROM sessions WHERE id IN"
            " (SELECT id FROM sessions WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def erase_addresses(self, before: Instant, limit: int) -> int:
        """Erase at most `limit` IP addresses of sign-ins, and of uses, before `before`.

        Returns the larger count.
        """
        of_sign_ins = self.db.run(
            "UPDATE sessions SET signed_in_from = '' WHERE id IN (SELECT id FROM sessions"
            " WHERE signed_in_from <> '' AND auth_time < :before ORDER BY auth_time LIMIT :limit)",
            before=before,
            limit=limit,
        )
        of_uses = self.db.run(
            "UPDATE sessions SET last_seen_from = '' WHERE id IN (SELECT id FROM sessions WHERE"
            " last_seen_from <> '' AND last_seen_at < :before ORDER BY last_seen_at LIMIT :limit)",
            before=before,
            limit=limit,
        )
        return max(of_sign_ins, of_uses)


SESSIONS = Record(
    Session,
    "sessions",
    ended_at=Column(
        sql="COALESCE(sessions.ended_at, CASE WHEN sessions.generation <>"
        " users.session_generation THEN sessions.last_seen_at END)"
    ),
)
"""In statements that join the user."""


class Participants(Struct, frozen=True):
    """Store which clients take part in a session, until the session would expire."""

    db: Connection

    def add(self, session_id: str, client_id: str, now: Instant) -> bool:
        """Record the client as a participant of the session, once. False if the session has ended.

        The client may be notified in this transaction: a transaction that ends the session
        meanwhile waits for it, and then finds the client here.
        """
        # Only to lock the row: transactions that end the session lock it too.
        lives = self.db.run(
            "UPDATE sessions SET ended_at = NULL"
            " WHERE id = :session_id AND ended_at IS NULL AND expires_at > :now",
            session_id=session_id,
            now=now,
        )
        if not lives:
            return False
        self.db.send(
            "INSERT INTO participants (session_id, client_id, since, expires_at)"
            " SELECT id, :client_id, :now, expires_at FROM sessions WHERE id = :session_id"
            " ON CONFLICT (session_id, client_id) DO NOTHING",
            session_id=session_id,
            client_id=client_id,
            now=now,
        )
        return True

    def extend(self, session_id: str, until: Instant) -> None:
        """Keep the rows for as long as the session now lasts."""
        self.db.send(
            "UPDATE participants SET expires_at = :until WHERE session_id = :session_id",
            session_id=session_id,
            until=until,
        )

    def of_session(self, session_id: str) -> Sequence[str]:
        """Return the ids of the participating clients, earliest first."""
        rows = self.db.rows(
            "SELECT client_id FROM participants WHERE session_id = :session_id"
            " ORDER BY since, client_id",
            session_id=session_id,
        )
        return [row[0] for row in rows]

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` of expired sessions."""
        return self.db.run(
            "DELETE FROM participants WHERE (session_id, client_id) IN"
            " (SELECT session_id, client_id FROM participants WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


class SessionAndUser(Struct, frozen=True):
    """A session, ended or not, and its user, disabled or not.

    `consent` is the user's for the requested client, `is_participant` whether that client takes
    part in the session.
    """

    session: Session
    user: User
    consent: Consent | None
    is_participant: bool


class SignedInRows(Struct, frozen=True):
    """Find a session with its user in one statement: every authorization request needs it twice."""

    db: Connection

    def find(self, fingerprint: Fingerprint, client_id: str) -> SessionAndUser | None:
        """Return the presence of a cookie. A `client_id` of "" asks about no client."""
        return _PRESENCES.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " LEFT JOIN consents ON consents.uid = sessions.uid"
            " AND consents.client_id = :client_id"
            " AND consents.generation = users.consent_generation"
            " LEFT JOIN participants ON participants.session_id = sessions.id"
            " AND participants.client_id = :client_id"
            " WHERE sessions.fingerprint = :fingerprint",
            fingerprint=fingerprint,
            client_id=client_id,
        )

    def find_by_id(self, session_id: str, client_id: str) -> SessionAndUser | None:
        """Return the presence of a session's public id."""
        return _PRESENCES.find(
            self.db,
            "SELECT * FROM sessions JOIN users ON users.uid = sessions.uid"
            " LEFT JOIN consents ON consents.uid = sessions.uid"
            " AND consents.client_id = :client_id"
            " AND consents.generation = users.consent_generation"
            " LEFT JOIN participants ON participants.session_id = sessions.id"
            " AND participants.client_id = :client_id"
            " WHERE sessions.id = :id",
            id=session_id,
            client_id=client_id,
        )


_PRESENCES = Record(
    SessionAndUser,
    session=SESSIONS,
    user=USERS,
    consent=CONSENTS,
    is_participant=Column(sql="participants.client_id IS NOT NULL"),
)


class Administration(Struct, frozen=True):
    """A sign-in to the administration; of its cookie only a fingerprint is stored."""

    session_id: str
    fingerprint: Fingerprint
    entered_at: Instant
    last_seen_at: Instant
    expires_at: Instant


class Administrations(Struct, frozen=True):
    """Administration sign-ins by session."""

    db: Connection

    def enter(self, entry: Administration) -> None:
        """Begin a new administration sign-in of this session and void the earlier cookie."""
        _ENTRIES.run(
            self.db,
            "INSERT INTO administrations (*) VALUES (*) ON CONFLICT (session_id) DO UPDATE SET"
            " fingerprint = excluded.fingerprint, entered_at = excluded.entered_at, last_seen_at ="
            " excluded.last_seen_at, expires_at = excluded.expires_at",
            entry,
        )

    def find(self, session_id: str) -> Administration | None:
        """Return this session's sign-in, expired or not."""
        return _ENTRIES.find(
            self.db,
            "SELECT * FROM administrations WHERE session_id = :session_id",
            session_id=session_id,
        )

    def touch(self, session_id: str, now: Instant) -> None:
        """Record that it was used."""
        self.db.send(
            "UPDATE administrations SET last_seen_at = :now"
            " WHERE session_id = :session_id AND last_seen_at < :now",
            session_id=session_id,
            now=now,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired ones."""
        return self.db.run(
            "DELETE FROM administrations WHERE session_id IN (SELECT session_id"
            " FROM administrations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_ENTRIES = Record(Administration, "administrations")
