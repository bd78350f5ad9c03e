"""Invitations to register applications (initial access tokens, RFC 7591 section 3)."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from valetkey.authorization.actions import registrations
from valetkey.authorization.actions.admin.permissions import (
    Actor,
    Permission,
    require,
    require_to_issue,
)
from valetkey.authorization.protocol.register.faults import MetadataError, input_fault
from valetkey.authorization.storage.members import InitialAccessToken
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, days, later
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, fresh_id, fresh_secret

LONGEST_NOTE = 200
MOST_USES = 1_000_000
MOST = 100
"""Maximum number of live invitations issued by one account."""
TOO_MANY = MetadataError("note", f"one of at most {MOST} that work: end another first")

LONGEST_LIFETIME = days(3_650)


class WantedInvitation(Struct, frozen=True):
    """Input for an invitation, unchecked."""

    note: str
    uses: int
    lifetime: Lifetime

    def faults(self) -> tuple[MetadataError, ...]:
        """Return every error."""
        found = list[MetadataError]()
        if len(self.note) > LONGEST_NOTE or not self.note.isprintable():
            found.append(input_fault("note", "text.printable", most=LONGEST_NOTE))
        if not 0 < self.uses <= MOST_USES:
            found.append(MetadataError("uses", f"from 1 to {MOST_USES}"))
        if not 0 < self.lifetime <= LONGEST_LIFETIME:
            found.append(MetadataError("lifetime", "from one second to ten years"))
        return tuple(found)


class InvitationSecrets(Struct, frozen=True):
    """The random values of an invitation, generated before the transaction."""

    id: str
    token: Secret

    @staticmethod
    def draw(random: Callable[[int], bytes]) -> "InvitationSecrets":
        """Generate the values."""
        return InvitationSecrets(fresh_id("in", random), fresh_secret(Prefix.INVITATION, random))


def live(tx: Transaction, actor: Actor, now: Instant) -> Sequence[InitialAccessToken]:
    """Return the usable invitations, oldest first. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.invitations.live(now)


def invite(
    tx: Transaction,
    actor: Actor,
    key: FingerprintKey,
    wanted: WantedInvitation,
    fresh: InvitationSecrets,
    now: Instant,
) -> InitialAccessToken | tuple[MetadataError, ...]:
    """Create an invitation; its token allows registering applications.

    Raises Refused (forbidden).
    """
    require_to_issue(tx, actor, Permission.CLIENTS)
    if faults := wanted.faults():
        return faults
    until, maker = later(now, wanted.lifetime), getattr(actor, "uid", None)
    # Counted with the issuer locked: with a role, all of them end in one transaction.
    if maker is not None and len(tx.invitations.made_by(maker, now)) >= MOST:
        return (TOO_MANY,)
    made = InitialAccessToken(fresh.id, wanted.note, wanted.uses, now, until, maker)
    registrations.invite(tx, key, fresh.token, made, now)
    return made


def withdraw(tx: Transaction, actor: Actor, id: str, now: Instant) -> bool:
    """Withdraw an invitation. False if there is none. Raises Refused (forbidden)."""
    require(tx, actor, Permission.CLIENTS)
    return registrations.withdraw(tx, id, now)
