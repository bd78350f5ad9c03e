"""Store of API tokens for administration."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.account.user import ApiToken, Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.secret import Fingerprint

_NOTED_EVERY = 60
_KEPT = days(90)


class ApiTokens(Struct, frozen=True):
    """Issue, find and revoke API tokens; revoked ones are kept for a while, to be looked up."""

    db: Connection

    def issue(self, print_: Fingerprint, token: ApiToken) -> None:
        """Insert the token."""
        _TOKENS.send(
            self.db,
            "INSERT INTO api_tokens (*, token_print) VALUES (*, :print)",
            token,
            print=print_,
        )

    def find_by_fingerprint(self, print_: Fingerprint) -> ApiToken | None:
        """Return the token with this fingerprint, live or not."""
        return _TOKENS.find(
            self.db,
            "SELECT * FROM api_tokens WHERE token_print = :print",
            print=print_,
        )

    def find(self, id: str) -> ApiToken | None:
        """Return the token with this id, live or not."""
        return _TOKENS.find(
            self.db,
            "SELECT * FROM api_tokens WHERE id = :id",
            id=id,
        )

    def page(self, before: Instant, before_id: str, limit: int) -> Sequence[ApiToken]:
        """Return at most `limit` tokens, newest first, before a position."""
        return _TOKENS.all(
            self.db,
            "SELECT * FROM api_tokens WHERE created_at < :before OR (created_at = :before AND id <"
            " :before_id) ORDER BY created_at DESC, id DESC LIMIT :limit",
            before=before,
            before_id=before_id,
            limit=limit,
        )

    def count_live(self, uid: Uid, now: Instant) -> int:
        """Return the number of a user's live tokens."""
        row = self.db.row(
            "SELECT count(*) FROM api_tokens"
            " WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now",
            uid=uid,
            now=now,
        )
        return 0 if row is None else int(row[0])

    def live_of(self, uid: Uid, now: Instant) -> Sequence[ApiToken]:
        """Return a user's live tokens, oldest first."""
        return _TOKENS.all(
            self.db,
            "SELECT * FROM api_tokens WHERE uid = :uid AND ended_at IS NULL AND expires_at > :now"
            " ORDER BY created_at, id",
            uid=uid,
            now=now,
        )

    def end(self, id: str, now: Instant) -> bool:
        """Revoke the token. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "UPDATE api_tokens SET ended_at = :now"
            " WHERE id = :id AND ended_at IS NULL AND expires_at > :now",
            id=id,
            now=now,
        )
        return ended == 1

    def note_use(self, id: str, now: Instant) -> None:
        """Record that it was used; at most once a minute."""
        self.db.send(
            "UPDATE api_tokens SET last_used_at = :now"
            " WHERE id = :id AND (last_used_at IS NULL OR last_used_at <= :before)",
            id=id,
            now=now,
            before=now - _NOTED_EVERY,
        )

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that ended over 90 days ago."""
        return self.db.run(
            "DELETE FROM api_tokens WHERE id IN"
            " (SELECT id FROM api_tokens WHERE expires_at <= :before"
            " ORDER BY expires_at LIMIT :limit)",
            before=now - _KEPT,
            limit=limit,
        )


_TOKENS = Record(ApiToken, "api_tokens")
