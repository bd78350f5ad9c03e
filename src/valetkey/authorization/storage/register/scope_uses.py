"""Scopes that apps really used, as reported by resource servers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant, days, hours

FORGOTTEN_AFTER = days(1)
"""A scope without reports for this long is no longer considered watched."""

_NOTED_EVERY = hours(1)


@dataclass(frozen=True, slots=True)
class ScopeUse:
    """The last use of a scope of a grant."""

    grant_id: str
    scope: str
    last_used_at: Instant


@dataclass(frozen=True, slots=True)
class ScopeUses:
    """At most one row for each scope of a grant, for as long as the grant could live."""

    db: Connection

    def note(self, use: ScopeUse, at: ApiGeneration = ("", 0)) -> bool:
        """Record a use at an API, unless a later one is known. The scope is that of grants.

        False if no live grant allows it there: the grant ended, or its part that was for the API.
        """
        row = self.db.row(
            "SELECT scope, expires_at FROM grants WHERE id = :id AND revoked_at IS NULL"
            " AND (:api = '' OR EXISTS (SELECT 1 FROM grant_apis a WHERE a.grant_id = :id"
            " AND a.api_id = :api AND a.generation = :generation))",
            id=use.grant_id,
            api=at[0],
            generation=at[1],
        )
        scope, expires_at = row or ("", 0)
        if not use.scope or use.scope not in scope.split(" "):
            return False
        self.db.send(
            "INSERT INTO scope_uses (grant_id, scope, last_used_at, expires_at)"
            " VALUES (:grant_id, :scope, :at, :expires_at)"
            " ON CONFLICT (grant_id, scope) DO UPDATE SET last_used_at = :at"
            " WHERE scope_uses.last_used_at < :at",
            grant_id=use.grant_id,
            scope=use.scope,
            at=use.last_used_at,
            expires_at=expires_at,
        )
        return True

    def of_grant(self, grant_id: str) -> Sequence[ScopeUse]:
        """Return every known use of this grant, one for each scope."""
        rows = self.db.rows(
            "SELECT grant_id, scope, last_used_at FROM scope_uses WHERE grant_id = :grant_id",
            grant_id=grant_id,
        )
        return [ScopeUse(*row) for row in rows]

    def watch(self, scopes: Collection[str], now: Instant) -> None:
        """Record that all uses of these scopes are reported; from now on, if there was a gap."""
        for scope in scopes:
            self.db.send(
                "INSERT INTO watched_scopes (scope, since, heard_at) VALUES (:scope, :now, :now)"
                " ON CONFLICT (scope) DO UPDATE SET heard_at = :now,"
                " since = CASE WHEN watched_scopes.heard_at < :gap THEN :now"
                " ELSE watched_scopes.since END WHERE watched_scopes.heard_at < :stale",
                scope=scope,
                now=now,
                gap=now - FORGOTTEN_AFTER,
                stale=now - _NOTED_EVERY,
            )

    def watched(self, now: Instant) -> Mapping[str, Instant]:
        """Return the watched scopes, and since when they are reported without a gap."""
        rows = self.db.rows(
            "SELECT scope, since FROM watched_scopes WHERE heard_at >= :gap",
            gap=now - FORGOTTEN_AFTER,
        )
        return dict(rows)

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` uses of expired grants."""
        return self.db.run(
            "DELETE FROM scope_uses WHERE expires_at <= :now AND (grant_id, scope) IN"
            " (SELECT grant_id, scope FROM scope_uses WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )

    def sweep_watched(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` scopes that are no longer considered watched."""
        return self.db.run(
            "DELETE FROM watched_scopes WHERE heard_at < :gap AND scope IN"
            " (SELECT scope FROM watched_scopes WHERE heard_at < :gap"
            " ORDER BY heard_at LIMIT :limit)",
            gap=now - FORGOTTEN_AFTER,
            limit=limit,
        )
