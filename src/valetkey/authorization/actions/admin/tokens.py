"""API tokens of administrators, and invitations to register apps (RFC 7591)."""

from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from valetkey.authorization.actions import registrations
from valetkey.authorization.actions.admin.permissions import (
    NOTHING,
    Actor,
    ActorPermissions,
    Permission,
    hold_in_order,
    permissions_of,
    require,
    require_to_issue,
)
from valetkey.authorization.model.event.administration import ApiTokenEnded, ApiTokenIssued
from valetkey.authorization.model.event.event import DoneBy, by_token
from valetkey.authorization.model.user import ApiToken, Uid
from valetkey.authorization.protocol.register.faults import (
    MetadataError,
    fault,
    input_fault,
)
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.search import TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, days, later
from valetkey.kernel.secret import (
    FingerprintKey,
    Prefix,
    Secret,
    fresh_id,
    fresh_secret,
    well_formed,
)

LONGEST_LIFETIME = days(365)
"""The longest lifetime of a token."""

LONGEST_NAME = 80
MOST = 50
"""Maximum number of live tokens of one user."""

_PURPOSE = "api token"
Faults = tuple[MetadataError, ...]

TOO_MANY = fault(
    "name", "list.full", f"one of at most {MOST} that work: end another first", most=MOST
)


class Program(Struct, frozen=True):
    """The holder of an admin API token.

    Its permissions are those of the token and its creator now.
    """

    token_id: str
    uid: Uid
    expires_at: Instant
    now: Instant

    @property
    def done_by(self) -> DoneBy:
        """Return how events name the token: `user 17 token at_…`."""
        return by_token(self.uid, self.token_id)

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return the permissions of both the token and its creator; none if either has ended."""
        tx.users.hold(self.uid)
        token, user = tx.api_tokens.find(self.token_id), tx.users.find(self.uid)
        if token is None or not token.is_live(self.now) or token.uid != self.uid:
            return NOTHING
        if user is None or user.disabled_at is not None or user.role is None:
            return NOTHING
        may = permissions_of(user.role)
        return ActorPermissions(may.role, may.permissions & token_permissions(token))


class WantedToken(Struct, frozen=True):
    """Input for a new token, unchecked. The token acts in the name of `maker`."""

    name: str
    permissions: Collection[str]
    lifetime: Lifetime
    maker: Uid


class FreshToken(Struct, frozen=True):
    """The random values of a token, generated before the transaction."""

    id: str
    secret: Secret


def issue(
    tx: Transaction,
    actor: Actor,
    key: FingerprintKey,
    wish: WantedToken,
    fresh: FreshToken,
    now: Instant,
) -> ApiToken | Faults:
    """Return the new token, or every error.

    It allows what the role of its creator and the actor allow. A token created with
    a token expires no later, and ends with it. Raises Refused (forbidden).
    """
    # Locked: parallel requests are counted one after the other, and the end of a role ends
    # every token.
    hold_in_order(tx, actor, wish.maker)
    maker = tx.users.find_to_change(wish.maker)
    powers = require(tx, actor, Permission.KEYS)
    if maker is None or maker.disabled_at is not None or maker.role is None:
        return (MetadataError("uid", "a user with a role and an enabled account"),)
    if getattr(actor, "uid", None) != maker.uid:
        require(tx, actor, Permission.KEYS, maker)
    faults = list(_faults(wish))
    most = powers.permissions & permissions_of(maker.role).permissions
    permissions = frozenset(wish.permissions)
    if not permissions or not permissions <= {permission.value for permission in most}:
        names = ", ".join(permission.value for permission in Permission if permission in most)
        code = "choice.known" if permissions else "list.none"
        detail = f"at least one, and only of: {names}"
        faults.append(fault("permissions", code, detail, known=names))
    if tx.api_tokens.count_live(wish.maker, now) >= MOST:
        faults.append(TOO_MANY)
    until = later(now, wish.lifetime)
    if isinstance(actor, Program) and until > actor.expires_at:
        faults.append(MetadataError("lifetime", "no longer than the token it is made with"))
    if faults:
        return tuple(faults)
    made_with = actor.token_id if isinstance(actor, Program) else ""
    token = ApiToken(fresh.id, maker.uid, wish.name, permissions, now, until, made_with=made_with)
    tx.api_tokens.issue(key.fingerprint(_PURPOSE, fresh.secret.reveal()), token)
    permission_names = tuple(sorted(permissions))
    tx.events.add(ApiTokenIssued(maker.uid, token.id, permission_names, until), now)
    return token


def authenticate(
    tx: Transaction, key: FingerprintKey, text: str, now: Instant
) -> tuple[ApiToken, Program, ActorPermissions] | None:
    """Return the token, its actor and its permissions; None if it has none."""
    if not well_formed(Prefix.API_TOKEN, text):
        return None
    token = tx.api_tokens.find_by_fingerprint(key.fingerprint(_PURPOSE, text))
    if token is None:
        return None
    program = Program(token.id, token.uid, token.expires_at, now)
    powers = program.permissions_in(tx)
    return (token, program, powers) if powers.permissions else None


def page(tx: Transaction, actor: Actor, before: TimeCursor, limit: int) -> Sequence[ApiToken]:
    """Return at most `limit` tokens, newest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.api_tokens.page(before.at, before.id, limit)


def end(tx: Transaction, actor: Actor, id: str, now: Instant) -> bool:
    """End a token and those created with it; False if no such token is live.

    Raises Refused (forbidden).
    """
    token = tx.api_tokens.find(id)
    # Locked: a token that is created with this one is created before, or not at all.
    if token is not None:
        hold_in_order(tx, actor, token.uid)
    require(tx, actor, Permission.KEYS)
    if token is None:
        return False
    if getattr(actor, "uid", None) != token.uid:
        require(tx, actor, Permission.KEYS, tx.users.find(token.uid))
    if not tx.api_tokens.end(id, now):
        return False
    tx.events.add(ApiTokenEnded(token.uid, id), now)
    _end_made_with(tx, token, now)
    return True


def _end_made_with(tx: Transaction, token: ApiToken, now: Instant) -> None:
    for other in tx.api_tokens.live_of(token.uid, now):
        if other.made_with == token.id and tx.api_tokens.end(other.id, now):
            tx.events.add(ApiTokenEnded(token.uid, other.id), now)
            _end_made_with(tx, other, now)


def end_all_of(tx: Transaction, uid: Uid, now: Instant) -> None:
    """End every token of a user, also of a disabled one."""
    for token in tx.api_tokens.live_of(uid, now):
        if tx.api_tokens.end(token.id, now):
            tx.events.add(ApiTokenEnded(uid, token.id), now)


def token_permissions(token: ApiToken) -> frozenset[Permission]:
    """Return the token's permissions that still exist."""
    return frozenset(
        permission for permission in Permission if permission.value in token.permissions
    )


def _faults(token: WantedToken) -> Faults:
    name, faults = token.name, list[MetadataError]()
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable() or name.strip() != name:
        faults.append(input_fault("name", "text.some", least=1, most=LONGEST_NAME))
    if not 0 < token.lifetime <= LONGEST_LIFETIME:
        faults.append(fault("lifetime", "lifetime.year"))
    return tuple(faults)


LONGEST_NOTE = 200
MOST_USES = 1_000_000
MOST_INVITATIONS = 100
"""Maximum number of live invitations issued by one account."""
_TOO_MANY_INVITATIONS = fault("note", "invitations.most", most=MOST_INVITATIONS)

LONGEST_INVITATION = days(3_650)


class WantedInvitation(Struct, frozen=True):
    """Input for an invitation, unchecked."""

    note: str
    uses: int
    lifetime: Lifetime

    def faults(self) -> tuple[MetadataError, ...]:
        """Return every error."""
        errors = list[MetadataError]()
        if len(self.note) > LONGEST_NOTE or not self.note.isprintable():
            errors.append(input_fault("note", "text.printable", most=LONGEST_NOTE))
        if not 0 < self.uses <= MOST_USES:
            errors.append(fault("uses", "number.range", least=1, most=MOST_USES))
        if not 0 < self.lifetime <= LONGEST_INVITATION:
            errors.append(fault("lifetime", "lifetime.decade"))
        return tuple(errors)


class InvitationSecrets(Struct, frozen=True):
    """The random values of an invitation, generated before the transaction."""

    id: str
    token: Secret

    @staticmethod
    def draw(random: Callable[[int], bytes]) -> "InvitationSecrets":
        """Generate the values."""
        return InvitationSecrets(fresh_id("in", random), fresh_secret(Prefix.INVITATION, random))


def live_invitations(tx: Transaction, actor: Actor, now: Instant) -> Sequence[InitialAccessToken]:
    """Return the usable invitations, oldest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.invitations.usable(now)


def invite(
    tx: Transaction,
    actor: Actor,
    key: FingerprintKey,
    invitation: WantedInvitation,
    fresh: InvitationSecrets,
    now: Instant,
) -> InitialAccessToken | tuple[MetadataError, ...]:
    """Create an invitation; its token allows registering applications.

    Raises Refused (forbidden).
    """
    require_to_issue(tx, actor, Permission.CLIENTS)
    if faults := invitation.faults():
        return faults
    until, maker = later(now, invitation.lifetime), getattr(actor, "uid", None)
    # Counted with the issuer locked: with a role, all of them end in one transaction.
    if maker is not None and len(tx.invitations.made_by(maker, now)) >= MOST_INVITATIONS:
        return (_TOO_MANY_INVITATIONS,)
    made = InitialAccessToken(fresh.id, invitation.note, invitation.uses, now, until, maker)
    registrations.invite(tx, key, fresh.token, made, now)
    return made


def withdraw(tx: Transaction, actor: Actor, id: str, now: Instant) -> bool:
    """Withdraw an invitation. False if there is none. Raises Refused (forbidden)."""
    require(tx, actor, Permission.CLIENTS)
    return registrations.withdraw(tx, id, now)
