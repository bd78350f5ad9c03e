"""Invitations into the team of an app, until they are answered or expire."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.membership import TeamRole
from valetkey.database.engine import Connection, Row
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


@dataclass(frozen=True, slots=True)
class TeamInvitation:
    """An invitation. `invited` is what the owner wrote.

    The user `uid` may accept it; if that is None, any user with its token and an account with this
    email address.
    """

    id: str
    token: Fingerprint
    client_id: str
    role: TeamRole
    invited: str
    email_key: str
    uid: Uid | None
    invited_by: Uid
    created_at: Instant
    expires_at: Instant


@dataclass(frozen=True, slots=True)
class TeamInvitations:
    """Issue, find and end invitations; each is answered once."""

    db: Connection

    def issue(self, invitation: TeamInvitation) -> None:
        """Issue an invitation."""
        self.db.send(
            "INSERT INTO team_invitations (id, token_print, client_id, role, invited, email_key,"
            " uid, invited_by, created_at, expires_at) VALUES (:id, :token, :client_id, :role,"
            " :invited, :email_key, :uid, :invited_by, :created_at, :expires_at)",
            id=invitation.id,
            token=invitation.token,
            client_id=invitation.client_id,
            role=invitation.role.value,
            invited=invitation.invited,
            email_key=invitation.email_key,
            uid=invitation.uid,
            invited_by=invitation.invited_by,
            created_at=invitation.created_at,
            expires_at=invitation.expires_at,
        )

    def find(self, id: str, now: Instant) -> TeamInvitation | None:
        """Return the invitation if it can still be answered."""
        row = self.db.row(
            "SELECT id, token_print, client_id, role, invited, email_key, uid, invited_by,"
            " created_at, expires_at FROM team_invitations WHERE id = :id AND expires_at > :now",
            id=id,
            now=now,
        )
        return None if row is None else _invitation(row)

    def to(self, client_id: str, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations into the team of one app, oldest first."""
        rows = self.db.rows(
            "SELECT id, token_print, client_id, role, invited, email_key, uid, invited_by,"
            " created_at, expires_at FROM team_invitations"
            " WHERE client_id = :client_id AND expires_at > :now ORDER BY created_at, id",
            client_id=client_id,
            now=now,
        )
        return [_invitation(row) for row in rows]

    def waiting_for(self, uid: Uid, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations that this account may accept, oldest first."""
        rows = self.db.rows(
            "SELECT id, token_print, client_id, role, invited, email_key, uid, invited_by,"
            " created_at, expires_at FROM team_invitations"
            " WHERE uid = :uid AND expires_at > :now ORDER BY created_at, id",
            uid=uid,
            now=now,
        )
        return [_invitation(row) for row in rows]

    def end(self, id: str, client_id: str, now: Instant) -> bool:
        """Answer or withdraw it. Exactly one concurrent caller gets True."""
        ended = self.db.run(
            "DELETE FROM team_invitations"
            " WHERE id = :id AND client_id = :client_id AND expires_at > :now",
            id=id,
            client_id=client_id,
            now=now,
        )
        return ended == 1

    def end_by(self, uid: Uid, client_id: str) -> Sequence[str]:
        """End all invitations into one team issued by this user; return their ids."""
        rows = self.db.rows(
            "DELETE FROM team_invitations WHERE invited_by = :uid AND client_id = :client_id"
            " RETURNING id",
            uid=uid,
            client_id=client_id,
        )
        return [row[0] for row in rows]

    def end_for(self, client_id: str, uid: Uid, email_key: str) -> Sequence[str]:
        """End all into one team that this user, or this address, could accept; return their ids."""
        rows = self.db.rows(
            "DELETE FROM team_invitations WHERE client_id = :client_id"
            " AND (uid = :uid OR email_key = :email_key) RETURNING id",
            client_id=client_id,
            uid=uid,
            email_key=email_key,
        )
        return [row[0] for row in rows]

    def end_all_by(self, uid: Uid) -> Sequence[tuple[str, str]]:
        """End all that this user issued; return the app and the id of each."""
        rows = self.db.rows(
            "DELETE FROM team_invitations WHERE invited_by = :uid RETURNING client_id, id", uid=uid
        )
        return [(row[0], row[1]) for row in rows]

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired invitations."""
        return self.db.run(
            "DELETE FROM team_invitations WHERE id IN"
            " (SELECT id FROM team_invitations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


def _invitation(row: Row) -> TeamInvitation:
    return TeamInvitation(
        row[0],
        Fingerprint(row[1]),
        row[2],
        TeamRole(row[3]),
        row[4],
        row[5],
        None if row[6] is None else Uid(row[6]),
        Uid(row[7]),
        Instant(row[8]),
        Instant(row[9]),
    )
