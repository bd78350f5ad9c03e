"""Planned and finished removals of accounts."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.user import Uid
from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant

KEPT = {
    "users": "its row is emptied; the number in it stays, and is never assigned again",
    "uids": "the number alone, so that it is never given again",
    "grants": "ended; what clients had, and of whom by number, until it would have expired",
    "outbox": "apps still have to hear that the sessions have ended; swept after that",
    "deliveries": "empty: moved into `outbox`",
    "mails": "empty: moved into `outbox`",
    "events": "the audit log names people by number alone; `log.keep_events` ends it",
    "user_imports": "which administrator imported a file, by number; swept after seven days",
    "account_removals": "that it was removed, and when",
}
"""Tables that name a user and keep their rows, with the reason."""


class AccountRemovals(Struct, frozen=True):
    """Store planned and finished removals of accounts, one row each."""

    db: Connection

    def plan(self, uid: Uid, due_at: Instant, now: Instant) -> bool:
        """Plan the removal at `due_at`. False if it is planned or done already."""
        planned = self.db.run(
            "INSERT INTO account_removals (uid, asked_at, due_at) VALUES (:uid, :now, :due_at)"
            " ON CONFLICT (uid) DO NOTHING",
            uid=uid,
            now=now,
            due_at=due_at,
        )
        return planned == 1

    def cancel(self, uid: Uid) -> bool:
        """Cancel the removal. False if none was planned, or it is done."""
        cancelled = self.db.run(
            "DELETE FROM account_removals WHERE uid = :uid AND done_at IS NULL", uid=uid
        )
        return cancelled == 1

    def due_at(self, uid: Uid) -> Instant | None:
        """Return when the removal is planned, if it is."""
        row = self.db.row(
            "SELECT due_at FROM account_removals WHERE uid = :uid AND done_at IS NULL", uid=uid
        )
        return None if row is None else Instant(row[0])

    def is_done(self, uid: Uid) -> bool:
        """Return whether the account was removed."""
        row = self.db.row("SELECT done_at FROM account_removals WHERE uid = :uid", uid=uid)
        return row is not None and row[0] is not None

    def due(self, now: Instant, limit: int) -> Sequence[Uid]:
        """Return at most `limit` removals that are due."""
        rows = self.db.rows(
            "SELECT uid FROM account_removals WHERE done_at IS NULL AND due_at <= :now"
            " ORDER BY due_at, uid LIMIT :limit",
            now=now,
            limit=limit,
        )
        return [Uid(row[0]) for row in rows]

    def finish(self, uid: Uid, now: Instant) -> bool:
        """Mark a due removal as done. Exactly one concurrent caller gets True."""
        finished = self.db.run(
            "UPDATE account_removals SET done_at = :now"
            " WHERE uid = :uid AND done_at IS NULL AND due_at <= :now",
            uid=uid,
            now=now,
        )
        return finished == 1

    def empty(self, uid: Uid, now: Instant) -> None:
        """Delete names and credentials; `delete_rows` deletes the rest in batches.

        From now on other users can take the names, and the account cannot sign in.
        """
        db = self.db
        db.run("DELETE FROM credentials WHERE uid = :uid", uid=uid)
        db.run("DELETE FROM developers WHERE uid = :uid", uid=uid)
        db.run("DELETE FROM people_words WHERE uid = :uid", uid=uid)
        db.run("DELETE FROM user_roles WHERE uid = :uid", uid=uid)
        db.run("DELETE FROM user_pictures WHERE uid = :uid", uid=uid)
        db.run("DELETE FROM saved_filters WHERE uid = :uid", uid=uid)
        # With a space in it: a name that no user can have or take.
        mark = f"removed {uid}"
        db.run(
            "UPDATE users SET username = :mark, username_key = :mark, email = '',"
            " email_key = :mark, email_held_key = NULL, email_verified_at = NULL, name = '',"
            " claims = '{}', attributes = '{}', role = NULL, changed_at = :now,"
            " disabled_at = :now WHERE uid = :uid",
            uid=uid,
            mark=mark,
            now=now,
        )

    def delete_rows(self, uid: Uid, now: Instant, limit: int) -> int:
        """Delete at most `limit` rows of the user in each table; return the largest count.

        Sessions are deleted after their apps were notified of their end.
        """
        statements = (
            (
                "DELETE FROM remembered_devices WHERE id IN"
                " (SELECT id FROM remembered_devices WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM consents WHERE uid = :uid AND client_id IN"
                " (SELECT client_id FROM consents WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM app_generations WHERE uid = :uid AND client_id IN"
                " (SELECT client_id FROM app_generations WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM memberships WHERE uid = :uid AND client_id IN"
                " (SELECT client_id FROM memberships WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM group_members WHERE uid = :uid AND group_id IN"
                " (SELECT group_id FROM group_members WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM user_roles WHERE (uid, api_id, role) IN"
                " (SELECT uid, api_id, role FROM user_roles WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM team_invitations WHERE id IN (SELECT id FROM team_invitations"
                " WHERE uid = :uid OR invited_by = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM invitations WHERE id IN"
                " (SELECT id FROM invitations WHERE made_by = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM api_tokens WHERE id IN"
                " (SELECT id FROM api_tokens WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM usage_people WHERE uid = :uid AND client_id IN"
                " (SELECT client_id FROM usage_people WHERE uid = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM outbox WHERE id IN (SELECT id FROM outbox"
                " WHERE uid = :uid AND queue = 'email' LIMIT :limit)"
            ),
            (
                "DELETE FROM event_origins WHERE event_id IN"
                " (SELECT event_id FROM event_origins WHERE owner = :uid LIMIT :limit)"
            ),
            (
                "DELETE FROM administrations WHERE session_id IN (SELECT a.session_id"
                " FROM administrations a JOIN sessions s ON s.id = a.session_id"
                " WHERE s.uid = :uid LIMIT :limit)"
            ),
        )
        most = max(self.db.run(sql, uid=uid, limit=limit) for sql in statements)
        sessions = self.db.run(
            "DELETE FROM sessions WHERE id IN (SELECT s.id FROM sessions s"
            " WHERE s.uid = :uid AND (s.ended_at IS NOT NULL OR s.expires_at <= :now)"
            " AND NOT EXISTS (SELECT 1 FROM administrations a WHERE a.session_id = s.id)"
            " LIMIT :limit)",
            uid=uid,
            now=now,
            limit=limit,
        )
        return max(most, sessions)
