"""Revocations: what resource servers must refuse although its signature is valid."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.model.register.api import Api
from valetkey.database.engine import Connection
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
