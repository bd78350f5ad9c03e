"""Invitations into the team of an app, until they are answered or expire."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.client import TeamRole
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
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
        _INVITATIONS.send(
            self.db,
            "INSERT INTO team_invitations (*) VALUES (*)",
            invitation,
        )

    def find(self, id: str, now: Instant) -> TeamInvitation | None:
        """Return the invitation if it can still be answered."""
        return _INVITATIONS.find(
            self.db,
            "SELECT * FROM team_invitations WHERE id = :id AND expires_at > :now",
            id=id,
            now=now,
        )

    def to(self, client_id: str, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations into the team of one app, oldest first."""
        return _INVITATIONS.all(
            self.db,
            "SELECT * FROM team_invitations WHERE client_id = :client_id AND expires_at > :now"
            " ORDER BY created_at, id",
            client_id=client_id,
            now=now,
        )

    def waiting_for(self, uid: Uid, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations that this account may accept, oldest first."""
        return _INVITATIONS.all(
            self.db,
            "SELECT * FROM team_invitations WHERE uid = :uid AND expires_at > :now"
            " ORDER BY created_at, id",
            uid=uid,
            now=now,
        )

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
        return [(client_id, id_) for client_id, id_ in rows]

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` expired invitations."""
        return self.db.run(
            "DELETE FROM team_invitations WHERE id IN"
            " (SELECT id FROM team_invitations WHERE expires_at <= :now"
            " ORDER BY expires_at LIMIT :limit)",
            now=now,
            limit=limit,
        )


_INVITATIONS = Record(TeamInvitation, "team_invitations", token=Column("token_print"))
