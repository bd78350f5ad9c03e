"""Teams of apps, and invitations: to a team, to register apps, to register a client."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.client import Membership, TeamRole
from valetkey.authorization.model.user import Uid
from valetkey.database.engine import Connection
from valetkey.database.record import Column, Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.secret import Fingerprint


class Members(Struct, frozen=True):
    """Store the members of the teams of apps, one row each."""

    db: Connection

    def find(self, client_id: str, uid: Uid) -> Membership | None:
        """Return the user's role in the app's team; None for a user outside the team."""
        return _MEMBERS.find(
            self.db,
            "SELECT * FROM memberships WHERE client_id = :client_id AND uid = :uid",
            client_id=client_id,
            uid=uid,
        )

    def team(self, client_id: str) -> Sequence[Membership]:
        """Return the team of an app, earliest member first."""
        return _MEMBERS.all(
            self.db,
            "SELECT * FROM memberships WHERE client_id = :client_id ORDER BY since, uid",
            client_id=client_id,
        )

    def team_to_change(self, client_id: str) -> Sequence[Membership]:
        """Return the team, locked against other changes until the transaction ends."""
        # Otherwise two owners leaving concurrently would each find the other still there.
        self.db.run("UPDATE clients SET changed_at = changed_at WHERE id = :id", id=client_id)
        return self.team(client_id)

    def of_user(self, uid: Uid) -> Sequence[Membership]:
        """Return the memberships of one user, oldest first."""
        return _MEMBERS.all(
            self.db,
            "SELECT * FROM memberships WHERE uid = :uid ORDER BY since, client_id",
            uid=uid,
        )

    def add(self, membership: Membership) -> bool:
        """Add a member. False if the user is one."""
        added = _MEMBERS.run(
            self.db,
            "INSERT INTO memberships (*) VALUES (*) ON CONFLICT (client_id, uid) DO NOTHING",
            membership,
        )
        return added == 1

    def give(self, client_id: str, uid: Uid, role: TeamRole) -> bool:
        """Change a member's role. False if the user is no member, or has that role."""
        changed = self.db.run(
            "UPDATE memberships SET role = :role"
            " WHERE client_id = :client_id AND uid = :uid AND role <> :role",
            client_id=client_id,
            uid=uid,
            role=role.value,
        )
        return changed == 1

    def remove(self, client_id: str, uid: Uid) -> bool:
        """Remove a member. False if the user is none."""
        removed = self.db.run(
            "DELETE FROM memberships WHERE client_id = :client_id AND uid = :uid",
            client_id=client_id,
            uid=uid,
        )
        return removed == 1

    def remove_all_of(self, client_id: str, now: Instant) -> None:
        """Remove all members and invitations of an app that was deleted at `now`.

        The app itself is deleted later: `dissolved` lists it.
        """
        self.db.run("DELETE FROM memberships WHERE client_id = :client_id", client_id=client_id)
        self.db.run(
            "DELETE FROM team_invitations WHERE client_id = :client_id", client_id=client_id
        )
        self.db.run(
            "INSERT INTO removals (client_id, removed_at) VALUES (:client_id, :now)"
            " ON CONFLICT (client_id) DO NOTHING",
            client_id=client_id,
            now=now,
        )

    def removed_before(self, before: Instant, limit: int) -> Sequence[str]:
        """Return the ids of at most `limit` apps dissolved before `before` that still exist."""
        rows = self.db.rows(
            "SELECT client_id FROM removals WHERE removed_at <= :before LIMIT :limit",
            before=before,
            limit=limit,
        )
        return [row[0] for row in rows]

    def is_developer(self, uid: Uid) -> bool:
        """Return whether an administrator allowed this user to register apps."""
        return self.db.row("SELECT uid FROM developers WHERE uid = :uid", uid=uid) is not None

    def mark(self, uid: Uid, now: Instant) -> bool:
        """Allow this user to register apps. False if that is allowed already."""
        marked = self.db.run(
            "INSERT INTO developers (uid, since) VALUES (:uid, :now) ON CONFLICT (uid) DO NOTHING",
            uid=uid,
            now=now,
        )
        return marked == 1

    def unmark(self, uid: Uid) -> bool:
        """Disallow it again; the user's apps stay. False if it was not allowed."""
        return self.db.run("DELETE FROM developers WHERE uid = :uid", uid=uid) == 1


_MEMBERS = Record(Membership, "memberships")


class TeamInvitation(Struct, frozen=True):
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


class TeamInvitations(Struct, frozen=True):
    """Issue, find and end invitations; each is answered once."""

    db: Connection

    def issue(self, invitation: TeamInvitation) -> None:
        """Store a team invitation."""
        _TEAM_INVITATIONS.send(
            self.db,
            "INSERT INTO team_invitations (*) VALUES (*)",
            invitation,
        )

    def find(self, id: str, now: Instant) -> TeamInvitation | None:
        """Return the invitation if it can still be answered."""
        return _TEAM_INVITATIONS.find(
            self.db,
            "SELECT * FROM team_invitations WHERE id = :id AND expires_at > :now",
            id=id,
            now=now,
        )

    def to(self, client_id: str, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations into the team of one app, oldest first."""
        return _TEAM_INVITATIONS.all(
            self.db,
            "SELECT * FROM team_invitations WHERE client_id = :client_id AND expires_at > :now"
            " ORDER BY created_at, id",
            client_id=client_id,
            now=now,
        )

    def waiting_for(self, uid: Uid, now: Instant) -> Sequence[TeamInvitation]:
        """Return the open invitations that this account may accept, oldest first."""
        return _TEAM_INVITATIONS.all(
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


_TEAM_INVITATIONS = Record(TeamInvitation, "team_invitations", token=Column("token_print"))


class InitialAccessToken(Struct, frozen=True):
    """A token that an operator issued; `note` is the operator's label.

    `made_by` is the user in whose role it was issued; None for the command line.
    """

    id: str
    note: str
    uses_left: int
    created_at: Instant
    expires_at: Instant
    made_by: Uid | None = None


class InitialAccessTokens(Struct, frozen=True):
    """Issue, use and withdraw initial access tokens."""

    db: Connection

    def issue(self, token: Fingerprint, invitation: InitialAccessToken) -> None:
        """Store an initial access token by its fingerprint; the token is not kept."""
        _INVITATIONS.send(
            self.db,
            "INSERT INTO invitations (*, token_print) VALUES (*, :token)",
            invitation,
            token=token,
        )

    def is_live(self, token: Fingerprint, now: Instant) -> bool:
        """Return whether it could be used now; only `spend` decides."""
        row = self.db.row(
            "SELECT id FROM invitations"
            " WHERE token_print = :token AND uses_left > 0 AND expires_at > :now",
            token=token,
            now=now,
        )
        return row is not None

    def spend(self, token: Fingerprint, now: Instant) -> bool:
        """Use it once. At most as many callers get True as it has uses."""
        spent = self.db.run(
            "UPDATE invitations SET uses_left = uses_left - 1"
            " WHERE token_print = :token AND uses_left > 0 AND expires_at > :now",
            token=token,
            now=now,
        )
        return spent == 1

    def usable(self, now: Instant) -> Sequence[InitialAccessToken]:
        """Return the usable tokens, oldest first."""
        return _INVITATIONS.all(
            self.db,
            "SELECT * FROM invitations WHERE uses_left > 0 AND expires_at > :now"
            " ORDER BY created_at, id",
            now=now,
        )

    def made_by(self, uid: Uid, now: Instant) -> Sequence[str]:
        """Return the ids of all usable tokens issued in the role of one user."""
        rows = self.db.rows(
            "SELECT id FROM invitations"
            " WHERE made_by = :uid AND uses_left > 0 AND expires_at > :now",
            uid=uid,
            now=now,
        )
        return [row[0] for row in rows]

    def withdraw(self, id: str) -> bool:
        """Withdraw it. False if there is none."""
        return self.db.run("DELETE FROM invitations WHERE id = :id", id=id) == 1

    def sweep(self, now: Instant, limit: int) -> int:
        """Delete at most `limit` tokens that are no longer usable."""
        return self.db.run(
            "DELETE FROM invitations WHERE token_print IN"
            " (SELECT token_print FROM invitations WHERE expires_at <= :now OR uses_left = 0"
            " LIMIT :limit)",
            now=now,
            limit=limit,
        )


_INVITATIONS = Record(InitialAccessToken, "invitations")
