"""Credentials of programs that provision users and groups by SCIM: issue, rotate, end."""

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import (
    NOTHING,
    Actor,
    ActorPermissions,
    Permission,
    require,
    require_to_issue,
)
from valetkey.authorization.model.event.event import DoneBy, by_directory
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.scim.model import (
    ScimCredential,
    ScimCredentialEnded,
    ScimCredentialIssued,
    ScimCredentialRotated,
)
from valetkey.authorization.scim.storage import ScimCredentials
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime, later
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, well_formed

MOST = 20
"""Maximum number of live credentials."""

_PURPOSE = "scim token"


class Provisioner(Struct, frozen=True):
    """A program with a SCIM credential: it acts on users without a role, and on groups."""

    credential_id: str

    @property
    def done_by(self) -> DoneBy:
        """Return how events name the credential: `scim sc_…`."""
        return by_directory(self.credential_id)

    def permissions_in(self, tx: Transaction) -> ActorPermissions:
        """Return `people` without a rank: no power over users with a role; nothing once ended."""
        ScimCredentials.of(tx).hold()
        credential = ScimCredentials.of(tx).find(self.credential_id)
        if credential is None or credential.ended_at is not None:
            return NOTHING
        return ActorPermissions(None, frozenset({Permission.USERS}))


def require_to_manage(tx: Transaction, actor: Actor) -> None:
    """Require `keys` and `people`: a credential must not allow more than its issuer may do."""
    require_to_issue(tx, actor, Permission.KEYS)
    require(tx, actor, Permission.USERS)


def issue(
    tx: Transaction, key: FingerprintKey, credential: ScimCredential, token: Secret
) -> tuple[MetadataError, ...]:
    """Issue a credential with this token. Faults: there are too many."""
    # Locked: parallel requests are counted one after the other.
    tx.user_directory.take_turn()
    if len(ScimCredentials.of(tx).live(MOST)) >= MOST:
        return (MetadataError("name", f"one of at most {MOST}: end another one first"),)
    ScimCredentials.of(tx).issue(credential, key.of(_PURPOSE, token.reveal()))
    tx.events.add(ScimCredentialIssued(credential.id), credential.created_at)
    return ()


def rotate(
    tx: Transaction, key: FingerprintKey, id: str, token: Secret, keep: Lifetime, now: Instant
) -> bool:
    """Replace the token; the one before works for `keep` more seconds. False if it has ended."""
    until = later(now, keep)
    if not ScimCredentials.of(tx).rotate(id, key.of(_PURPOSE, token.reveal()), until, now):
        return False
    tx.events.add(ScimCredentialRotated(id, until), now)
    return True


def end(tx: Transaction, id: str, now: Instant) -> bool:
    """End the credential; its tokens stop working at once. False if it has ended."""
    if not ScimCredentials.of(tx).end(id, now):
        return False
    tx.events.add(ScimCredentialEnded(id), now)
    return True


def authenticate(
    tx: Transaction, key: FingerprintKey, text: str, now: Instant
) -> ScimCredential | None:
    """Return the live credential of a token."""
    if not well_formed(Prefix.SCIM_TOKEN, text):
        return None
    return ScimCredentials.of(tx).find_by_fingerprint(key.of(_PURPOSE, text), now)
