"""Teams of apps: invite, join, change role, leave. An app always keeps an owner."""

from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct

from valetkey.authorization.actions.admin.roles import end_issued_in_team
from valetkey.authorization.actions.admin.search import resolve_users
from valetkey.authorization.email.notices import MailOutbox
from valetkey.authorization.model.client import Client, Membership, TeamRole
from valetkey.authorization.model.email import Email, EmailKind
from valetkey.authorization.model.event.grants import (
    TeamInvitationEnded,
    TeamInvitationIssued,
    TeamMemberAdded,
    TeamMemberChanged,
    TeamMemberRemoved,
)
from valetkey.authorization.model.user import Uid, User, fold
from valetkey.authorization.storage.members import TeamInvitation
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, days, later
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.secret import Fingerprint, FingerprintKey, Secret, same
from valetkey.kernel.text import translatable

LIFETIME = days(7)
"""How long an invitation can be answered."""

MOST_WAITING = 20
"""Maximum number of open invitations of one app, so that they cannot be used to send spam."""

MOST_MEMBERS = 50
"""Maximum number of members of an app's team, including those who are invited."""

NOT_OWNER = Refusal(
    ErrorCode.FORBIDDEN,
    translatable("only an owner of this app can do this; contact an owner"),
    "developer.owner",
)

_LONGEST = 254


class TeamError(StrEnum):
    """The reasons why a change of the team is refused."""

    GONE = "gone"  # no such app or user, or the visitor may not do this
    INVALID = "invalid"  # neither a username nor an address
    NUMBER = "number"  # could be a uid or a username
    MEMBER = "member"  # the user is in the team already
    TWICE = "twice"  # the user has an open invitation
    FULL = "full"
    LAST_OWNER = "last_owner"


class FreshInvitation(Struct, frozen=True):
    """The random values of an invitation, generated before the transaction."""

    id: str
    token: Secret


class Teams(Struct, frozen=True):
    """Team changes. Methods run inside a transaction and check the permission there."""

    fingerprints: FingerprintKey
    outbox: MailOutbox
    issuer: str

    def invite(
        self,
        tx: Transaction,
        client_id: str,
        by: User,
        invited: str,
        role: TeamRole,
        fresh: FreshInvitation,
        now: Instant,
        *,
        language: str = "en",
    ) -> TeamError | None:
        """Invite a user by username, email address, `uid:1002`, `name:ada` or `email:…`.

        The result does not reveal whether such a user exists.
        """
        # Locked: the end of the account or of the membership ends the invitations, too.
        inviter = tx.users.find_to_change(by.uid)
        team = tx.members.team_to_change(client_id)
        client = tx.clients.find(client_id)
        if client is None or not _is_owner(inviter, team):
            return TeamError.GONE
        if not 0 < len(invited) <= _LONGEST or not invited.isprintable():
            return TeamError.INVALID
        if fold(invited).isdigit():
            return TeamError.NUMBER
        kind, _, rest = invited.partition(":")
        is_said = bool(rest) and kind in {"uid", "name", "email"}
        address = rest if is_said and kind == "email" else "" if is_said else invited
        is_address = "@" in address
        if kind == "email" and is_said and not is_address:
            return TeamError.INVALID
        user = next(iter(resolve_users(tx, invited)), None)
        if user is not None and any(one.uid == user.uid for one in team):
            return TeamError.MEMBER
        waiting = tx.team_invitations.to(client_id, now)
        if any(fold(one.invited) == fold(invited) for one in waiting):
            return TeamError.TWICE
        if len(waiting) >= MOST_WAITING or len(team) + len(waiting) >= MOST_MEMBERS:
            return TeamError.FULL
        # An unverified address may belong to another user: then the email is the proof.
        bound = user if user is not None and (not is_address or user.email_verified_at) else None
        to = address if is_address else user.email if user is not None else ""
        tx.team_invitations.issue(
            TeamInvitation(
                id=fresh.id,
                token=self._print(fresh.token.reveal()),
                client_id=client_id,
                role=role,
                invited=invited,
                email_key=fold(to),
                uid=None if bound is None else bound.uid,
                invited_by=by.uid,
                created_at=now,
                expires_at=later(now, LIFETIME),
            )
        )
        tx.events.add(TeamInvitationIssued(client_id, fresh.id, role.value), now)
        message = Email(
            EmailKind.TEAM_INVITATION,
            to or invited,
            language,
            {
                "app": client.name or client.id,
                "by": by.name or by.username,
                "link": f"{self.issuer}/developer/invitations/{fresh.id}"
                f"?link={fresh.token.reveal()}",
                "days": str(LIFETIME // days(1)),
            },
            uid=None if bound is None else bound.uid,
            good_until=later(now, LIFETIME),
        )
        if to:
            self.outbox.enqueue(tx, message, now)
        else:
            self.outbox.enqueue_decoy(tx, message, now)
        return None

    def find(
        self, tx: Transaction, id: str, user: User, token: str, now: Instant
    ) -> TeamInvitation | None:
        """Return the invitation if this user may answer it."""
        invitation = tx.team_invitations.find(id, now)
        if invitation is None:
            return None
        if invitation.uid is not None:
            return invitation if invitation.uid == user.uid else None
        proven = same(invitation.token, self._print(token))
        return invitation if proven and invitation.email_key == fold(user.email) else None

    def accept(
        self, tx: Transaction, id: str, user: User, token: str, now: Instant
    ) -> TeamInvitation | None:
        """Accept an invitation and join the team. None if it cannot be accepted.

        An invitation is void once its inviter is no longer an owner of the app.
        """
        held = tx.users.find_to_change(user.uid)
        invitation = None
        if held is not None and held.disabled_at is None:
            invitation = self.find(tx, id, held, token, now)
        if invitation is None:
            return None
        team = tx.members.team_to_change(invitation.client_id)
        if not _is_owner(tx.users.find(invitation.invited_by), team) or len(team) >= MOST_MEMBERS:
            return None
        if not tx.team_invitations.end(invitation.id, invitation.client_id, now):
            return None
        add_member(tx, invitation.client_id, user.uid, invitation.role, now)
        return invitation

    def decline(self, tx: Transaction, id: str, user: User, token: str, now: Instant) -> bool:
        """Decline an invitation. False if there is none."""
        invitation = self.find(tx, id, user, token, now)
        if invitation is None or not tx.team_invitations.end(
            invitation.id, invitation.client_id, now
        ):
            return False
        tx.events.add(TeamInvitationEnded(invitation.client_id, invitation.id, "declined"), now)
        return True

    def withdraw(self, tx: Transaction, client_id: str, by: Uid, id: str, now: Instant) -> bool:
        """Withdraw an invitation. False if there is none, or if `by` is not an owner."""
        if not _owns(tx.members.team_to_change(client_id), by):
            return False
        if not tx.team_invitations.end(id, client_id, now):
            return False
        tx.events.add(TeamInvitationEnded(client_id, id, "withdrawn"), now)
        return True

    def change(
        self, tx: Transaction, client_id: str, by: Uid, uid: Uid, role: TeamRole, now: Instant
    ) -> TeamError | None:
        """Change the role of a member; the last owner cannot be changed."""
        team = tx.members.team_to_change(client_id)
        if not _owns(team, by) or not any(one.uid == uid for one in team):
            return TeamError.GONE
        if role is not TeamRole.OWNER and _is_last_owner(team, uid):
            return TeamError.LAST_OWNER
        if tx.members.give(client_id, uid, role):
            tx.events.add(TeamMemberChanged(client_id, uid, role.value), now)
            if role is not TeamRole.OWNER:
                end_issued_in_team(tx, client_id, uid, now)
        return None

    def remove(
        self, tx: Transaction, client_id: str, by: Uid, uid: Uid, now: Instant
    ) -> TeamError | None:
        """Remove a member. Every member may leave, except the last owner."""
        team = tx.members.team_to_change(client_id)
        if by != uid and not _owns(team, by):
            return TeamError.GONE
        if _is_last_owner(team, uid):
            return TeamError.LAST_OWNER
        return None if remove_member(tx, client_id, uid, now) else TeamError.GONE

    def _print(self, token: str) -> Fingerprint:
        return self.fingerprints.fingerprint("team invitation", token)


def add_member(tx: Transaction, client_id: str, uid: Uid, role: TeamRole, now: Instant) -> bool:
    """Add a user to the team. False if they are a member already."""
    added = tx.members.add(Membership(client_id, uid, role, now))
    if added:
        tx.events.add(TeamMemberAdded(client_id, uid, role.value), now)
    return added


def remove_member(tx: Transaction, client_id: str, uid: Uid, now: Instant) -> bool:
    """Remove a member, with what they issued in the team. False if they are none.

    Also the last owner: operators can manage an app without one.
    """
    tx.members.team_to_change(client_id)
    if not tx.members.remove(client_id, uid):
        return False
    tx.events.add(TeamMemberRemoved(client_id, uid), now)
    end_issued_in_team(tx, client_id, uid, now)
    user = tx.users.find(uid)
    email_key = fold(user.email) if user else ""
    for invitation_id in tx.team_invitations.end_for(client_id, uid, email_key):
        tx.events.add(TeamInvitationEnded(client_id, invitation_id, "removed"), now)
    return True


def give_owner(tx: Transaction, client_id: str, uid: Uid, now: Instant) -> bool:
    """Make a user an owner of an app. False if they are, or if there is no such app.

    For operators: only they can manage an app without an owner.
    """
    if tx.clients.find_held(client_id) is None or tx.users.find(uid) is None:
        return False
    if add_member(tx, client_id, uid, TeamRole.OWNER, now):
        return True
    is_changed = tx.members.give(client_id, uid, TeamRole.OWNER)
    if is_changed:
        tx.events.add(TeamMemberChanged(client_id, uid, TeamRole.OWNER.value), now)
    return is_changed


def _owns(team: Sequence[Membership], uid: Uid) -> bool:
    return any(one.owns and one.uid == uid for one in team)


def _is_owner(user: User | None, team: Sequence[Membership]) -> bool:
    return user is not None and user.disabled_at is None and _owns(team, user.uid)


def _is_last_owner(team: Sequence[Membership], uid: Uid) -> bool:
    return _owns(team, uid) and sum(one.owns for one in team) == 1


class TeamApp(Struct, frozen=True):
    """An app, and the role of one user in its team."""

    client: Client
    membership: Membership

    @property
    def name(self) -> str:
        """Return the app's name, or its client id if it has none."""
        return self.client.name or self.client.id


def find_own(tx: Transaction, client_id: str, uid: Uid) -> TeamApp | None:
    """Return the app if this user is in its team, otherwise None."""
    membership = tx.members.find(client_id, uid)
    client = None if membership is None else tx.clients.find(client_id)
    return None if client is None or membership is None else TeamApp(client, membership)


def own_apps(tx: Transaction, uid: Uid) -> Sequence[TeamApp]:
    """Return the apps in whose teams this user is, by name."""
    apps = (find_own(tx, membership.client_id, uid) for membership in tx.members.of_user(uid))
    return sorted(
        (app for app in apps if app is not None),
        key=lambda app: (app.name.casefold(), app.client.id),
    )


def owned_apps(tx: Transaction, uid: Uid) -> Sequence[Client]:
    """Return the apps that this user owns, alone or with others, by name."""
    return [app.client for app in own_apps(tx, uid) if app.membership.owns]


def sole_owned(tx: Transaction, uid: Uid) -> Sequence[Client]:
    """Return the apps of which this user is the only owner, by name."""
    return [
        client
        for client in owned_apps(tx, uid)
        if not any(one.owns and one.uid != uid for one in tx.members.team(client.id))
    ]
