"""Teams of apps, and the users who may register apps if that requires an invitation."""

from collections.abc import Sequence
from dataclasses import dataclass

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.client import Membership, TeamRole
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class Members:
    """One row for each user in the team of an app."""

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

    def of(self, uid: Uid) -> Sequence[Membership]:
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
        given = self.db.run(
            "UPDATE memberships SET role = :role"
            " WHERE client_id = :client_id AND uid = :uid AND role <> :role",
            client_id=client_id,
            uid=uid,
            role=role.value,
        )
        return given == 1

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

    def dissolved_before(self, before: Instant, limit: int) -> Sequence[str]:
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
