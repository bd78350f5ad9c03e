"""Revocations: of single tokens, of grants and users, and of many at once."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.api import Api
from valetkey.authorization.model.event.event import DoneBy
from valetkey.authorization.model.user import Uid
from valetkey.database.engine import Connection, Lock
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant, days, later

_KEPT = days(2)
"""No access token lives longer than a day; the rest allows for differing clocks."""

_NEVER = Instant(0)


class RevokedKind(StrEnum):
    """The kind of object that a revocation applies to."""

    GRANT = "grant"
    TOKEN = "token"
    CLIENT = "client"
    USER = "user"
    API = "api"
    ALL = "all"


class RevocationRecord(Struct, frozen=True):
    """One revocation; irrelevant once `expires_at` has passed."""

    kind: RevokedKind
    id: str
    revoked_at: Instant
    expires_at: Instant


class Revocations(Struct, frozen=True):
    """The revocations; rows are only added until they expire."""

    db: Connection

    def add(
        self,
        kind: RevokedKind,
        subject: str,
        now: Instant,
        audience: str = "",
        newest: Instant = _NEVER,
    ) -> None:
        """Record that it ended at `now`; `audience` is the API of a token.

        `newest` is when its last token was issued: in the future after the clock was set back.
        """
        self.db.send(
            "INSERT INTO revocations (kind, subject, revoked_at, expires_at, audience)"
            " VALUES (:kind, :subject, :now, :expires_at, :audience)"
            " ON CONFLICT (kind, subject) DO UPDATE"
            " SET revoked_at = :now, expires_at = :expires_at",
            kind=kind.value,
            subject=subject,
            now=now,
            expires_at=later(max(now, newest), _KEPT),
            audience=audience,
        )

    def add_once(
        self,
        kind: RevokedKind,
        subject: str,
        now: Instant,
        audience: str = "",
        newest: Instant = _NEVER,
    ) -> bool:
        """Record it unless it had ended before; exactly one concurrent caller gets True."""
        added = self.db.run(
            "INSERT INTO revocations (kind, subject, revoked_at, expires_at, audience)"
            " VALUES (:kind, :subject, :now, :expires_at, :audience)"
            " ON CONFLICT (kind, subject) DO NOTHING",
            kind=kind.value,
            subject=subject,
            now=now,
            expires_at=later(max(now, newest), _KEPT),
            audience=audience,
        )
        return added == 1

    def page(self, at: Instant, kind: str, subject: str, limit: int) -> Sequence[RevocationRecord]:
        """Return at most `limit` revocations in time order after a position.

        For the default API, which does not need the revocations of others.
        """
        return _REVOCATIONS.all(
            self.db,
            "SELECT * FROM revocations WHERE kind <> 'api' AND (revoked_at > :at"
            " OR (revoked_at = :at AND (kind > :kind OR (kind = :kind AND subject > :subject))))"
            " ORDER BY revoked_at, kind, subject LIMIT :limit",
            at=at,
            kind=kind,
            subject=subject,
            limit=limit,
        )

    def page_of_api(
        self, api: Api, at: Instant, kind: str, subject: str, limit: int
    ) -> Sequence[RevocationRecord]:
        """Return a page of the revocations that may concern tokens of a declared API.

        Its tokens and the grants for it. Clients and users that ended as a whole are named to every
        API: which of them had its tokens is not known once their rows are deleted.
        """
        return _REVOCATIONS.all(
            self.db,
            "SELECT * FROM revocations WHERE (revoked_at > :at"
            " OR (revoked_at = :at AND (kind > :kind OR (kind = :kind AND subject > :subject))))"
            " AND (kind IN ('all', 'client', 'user') OR (kind = 'api' AND subject = :identifier)"
            " OR (kind = 'token' AND audience = :identifier)"
            " OR (kind = 'grant' AND EXISTS (SELECT 1 FROM grant_apis"
            " WHERE grant_apis.grant_id = subject AND grant_apis.api_id = :api_id)))"
            " ORDER BY revoked_at, kind, subject LIMIT :limit",
            at=at,
            kind=kind,
            subject=subject,
            limit=limit,
            identifier=api.identifier,
            api_id=api.id,
        )

    def covers(self, token_id: str, client_id: str, issued_at: Instant) -> bool:
        """Return whether this token, or since its issue its client or everything, was revoked."""
        row = self.db.row(
            "SELECT kind FROM revocations WHERE (kind = 'token' AND subject = :token_id)"
            " OR (kind = 'client' AND subject = :client_id AND revoked_at >= :issued_at)"
            " OR (kind = 'all' AND subject = 'all' AND revoked_at >= :issued_at) LIMIT 1",
            token_id=token_id,
            client_id=client_id,
            issued_at=issued_at,
        )
        return row is not None

    def ended_api(self, identifier: str, issued_at: Instant) -> bool:
        """Return whether the API was disabled or removed since then."""
        row = self.db.row(
            "SELECT kind FROM revocations WHERE kind = 'api' AND subject = :identifier"
            " AND revoked_at >= :issued_at",
            identifier=identifier,
            issued_at=issued_at,
        )
        return row is not None

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` that no longer matter."""
        return self.db.run(
            "DELETE FROM revocations WHERE expires_at <= :now AND (kind, subject) IN"
            " (SELECT kind, subject FROM revocations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_REVOCATIONS = Record(RevocationRecord, "revocations", id=Column("subject"))


BATCH = 100
"""Sessions, grants or other rows of one ending that are written in one transaction."""


class BulkRevocationKind(StrEnum):
    """The kind of a bulk revocation, which determines its `subject`.

    Those of one user begin in this order: the rows of a removed account go last.
    """

    API = "api"  # what was granted for an API: its id
    APP = "app"  # what one user let one client do: uid, a space, the id of the client
    CLIENT = "client"  # everything issued to a client: its id
    CONSENTS = "consents"  # what a user allowed clients: the uid
    SESSIONS = "sessions"  # sessions of a user, and the grants bound to them: the uid
    USER = "user"  # everything issued to a user: the uid
    USER_REMOVED = "user_removed"  # everything known of a user: the uid


class BulkRevocation(Struct, frozen=True):
    """The revocation of everything of an earlier generation."""

    kind: BulkRevocationKind
    subject: str
    because: str
    done_by: DoneBy


class EndedGrant(Struct, frozen=True):
    """A grant that has ended and was not revoked one by one, and its user and client."""

    id: str
    uid: Uid
    client_id: str


class BulkRevocations(Struct, frozen=True):
    """Store unfinished bulk revocations, one for each subject; a second one extends the first.

    Grants come in the order of their ids, so that two processes that revoke them do not deadlock.
    """

    db: Connection

    def add(self, ending: BulkRevocation, now: Instant) -> None:
        """Queue the rest for the background."""
        self.db.send(
            "INSERT INTO endings (kind, subject, because, done_by, ended_at)"
            " VALUES (:kind, :subject, :because, :done_by, :now)"
            " ON CONFLICT (kind, subject) DO NOTHING",
            kind=ending.kind.value,
            subject=ending.subject,
            because=ending.because,
            done_by=ending.done_by,
            now=now,
        )

    def first(self) -> BulkRevocation | None:
        """Return the oldest unfinished one; for one process at a time."""
        self.db.exclude(Lock.ENDINGS)
        return _ENDINGS.find(
            self.db, "SELECT * FROM endings ORDER BY ended_at, kind, subject LIMIT 1"
        )

    def finish(self, ending: BulkRevocation) -> None:
        """Delete a finished bulk revocation."""
        self.db.send(
            "DELETE FROM endings WHERE kind = :kind AND subject = :subject",
            kind=ending.kind.value,
            subject=ending.subject,
        )

    def grants_of_client(self, client_id: str, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants of an earlier generation of the client."""
        grants = _GRANTS.all(
            self.db,
            "SELECT * FROM grants WHERE client_id = :client_id AND revoked_at IS NULL"
            " AND client_generation < (SELECT generation FROM clients WHERE id = :client_id)"
            " LIMIT :limit",
            client_id=client_id,
            limit=limit,
        )
        return _in_order(grants)

    def grants_of_user(self, uid: Uid, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants of an earlier generation of the user."""
        grants = _GRANTS.all(
            self.db,
            "SELECT * FROM grants WHERE uid = :uid AND revoked_at IS NULL AND user_generation <"
            " (SELECT generation FROM users WHERE uid = :uid) LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return _in_order(grants)

    def grants_of_app(self, uid: Uid, client_id: str, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants of an earlier generation between the two."""
        grants = _GRANTS.all(
            self.db,
            "SELECT * FROM grants WHERE uid = :uid AND client_id = :client_id"
            " AND revoked_at IS NULL AND app_generation < (SELECT generation FROM app_generations"
            " WHERE uid = :uid AND client_id = :client_id) LIMIT :limit",
            uid=uid,
            client_id=client_id,
            limit=limit,
        )
        return _in_order(grants)

    def grants_of_sessions(self, uid: Uid, limit: int) -> Sequence[EndedGrant]:
        """Return at most `limit` grants that were bound to an ended session of the user."""
        grants = _GRANTS.all(
            self.db,
            "SELECT * FROM grants JOIN sessions ON sessions.id = grants.session_id"
            " JOIN users ON users.uid = grants.uid WHERE grants.uid = :uid"
            " AND grants.revoked_at IS NULL AND (sessions.ended_at IS NOT NULL"
            " OR sessions.generation <> users.session_generation) LIMIT :limit",
            uid=uid,
            limit=limit,
        )
        return _in_order(grants)

    def delete_rows(self, client_id: str, limit: int) -> int:
        """Delete at most `limit` rows of the client in each table; return the largest count."""
        statements = (
            (
                "DELETE FROM grants WHERE id IN"
                " (SELECT id FROM grants WHERE client_id = :id LIMIT :limit)"
            ),
            (
                "DELETE FROM consents WHERE client_id = :id AND uid IN"
                " (SELECT uid FROM consents WHERE client_id = :id LIMIT :limit)"
            ),
            (
                "DELETE FROM app_generations WHERE client_id = :id AND uid IN"
                " (SELECT uid FROM app_generations WHERE client_id = :id LIMIT :limit)"
            ),
            (
                "DELETE FROM participants WHERE client_id = :id AND session_id IN"
                " (SELECT session_id FROM participants WHERE client_id = :id LIMIT :limit)"
            ),
            (
                "DELETE FROM usage_people WHERE client_id = :id AND uid IN"
                " (SELECT uid FROM usage_people WHERE client_id = :id LIMIT :limit)"
            ),
            (
                "DELETE FROM usage_counts WHERE client_id = :id AND day IN"
                " (SELECT day FROM usage_counts WHERE client_id = :id LIMIT :limit)"
            ),
        )
        return max(self.db.run(sql, id=client_id, limit=limit) for sql in statements)


_ENDINGS = Record(BulkRevocation, "endings")
_GRANTS = Record(EndedGrant, "grants")


def _in_order(grants: Sequence[EndedGrant]) -> Sequence[EndedGrant]:
    return sorted(grants, key=lambda grant: grant.id)
