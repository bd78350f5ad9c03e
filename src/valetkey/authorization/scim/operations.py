"""Credentials of programs that provision users and groups by SCIM: issue, rotate, end, list."""

from typing import Annotated

import msgspec
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
from valetkey.authorization.operations.client_state import SECRET_LIFETIMES
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Command,
    Moment,
    Name,
    Operation,
    Option,
    Result,
    on,
    reads,
    unchecked_write,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.scim.settings import ScimSettings
from valetkey.authorization.scim.storage import (
    ScimCredential,
    ScimCredentialEnded,
    ScimCredentialIssued,
    ScimCredentialRotated,
    ScimCredentials,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, Lifetime, later
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.secret import FingerprintKey, Prefix, Secret, well_formed
from valetkey.kernel.text import translatable

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
    if len(ScimCredentials.of(tx).usable(MOST)) >= MOST:
        detail = f"one of at most {MOST}: end another one first"
        return (fault("name", "list.full", detail, most=MOST),)
    ScimCredentials.of(tx).issue(credential, key.fingerprint(_PURPOSE, token.reveal()))
    tx.events.add(ScimCredentialIssued(credential.id), credential.created_at)
    return ()


def rotate(
    tx: Transaction, key: FingerprintKey, id: str, token: Secret, keep: Lifetime, now: Instant
) -> bool:
    """Replace the token; the one before works for `keep` more seconds. False if it has ended."""
    until = later(now, keep)
    if not ScimCredentials.of(tx).rotate(id, key.fingerprint(_PURPOSE, token.reveal()), until, now):
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
    return ScimCredentials.of(tx).find_by_fingerprint(key.fingerprint(_PURPOSE, text), now)


_ALL = "/scim-credentials"
_ONE = f"{_ALL}/{{credential_id}}"
_MISSING = "this credential does not exist or has ended; see: valetkey scim list"


class ScimCredentialShown(msgspec.Struct, frozen=True):
    """A SCIM credential, without its token."""

    id: str
    name: str
    created_at: Moment
    rotated_at: Moment | None
    last_used_at: Moment | None


class ScimCredentialList(msgspec.Struct, frozen=True):
    """SCIM credentials that work, oldest first."""

    items: list[ScimCredentialShown]


class ScimCredentialWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new SCIM credential."""

    name: Annotated[Name, msgspec.Meta(description="The directory that uses it, such as Okta.")]


class ScimRotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Input for a new token of a SCIM credential."""

    previous_lives: Annotated[
        int,
        msgspec.Meta(ge=0, le=2_592_000, description="Seconds for which the old token works."),
    ] = 86_400


class ScimCredentialMade(msgspec.Struct, frozen=True):
    """A SCIM credential with its new token, shown this once."""

    token: str
    record: ScimCredentialShown


def list_scim_credentials(tx: Transaction, call: Call) -> ScimCredentialList:
    """List the SCIM credentials that work."""
    del call
    return ScimCredentialList(
        [_shown(credential) for credential in ScimCredentials.of(tx).usable(MOST)]
    )


def create_scim_credential(
    tx: Transaction, call: Call
) -> ScimCredentialMade | tuple[MetadataError, ...]:
    """Issue a credential for a directory."""
    require_to_manage(tx, call.actor)
    name = call.input(ScimCredentialWanted).name
    credential = ScimCredential(call.new_id("sc"), name, call.now)
    token = call.new_secret(Prefix.SCIM_TOKEN)
    if faults := issue(tx, call.services.fingerprints, credential, token):
        return faults
    return ScimCredentialMade(token.reveal(), _shown(credential))


def rotate_scim_credential(tx: Transaction, call: Call) -> ScimCredentialMade:
    """Replace the token of a credential. Refused: not found."""
    require_to_manage(tx, call.actor)
    named, key = call.named("credential_id"), call.services.fingerprints
    token, keep = call.new_secret(Prefix.SCIM_TOKEN), call.input(ScimRotation).previous_lives
    rotated = rotate(tx, key, named, token, Lifetime(keep), call.now)
    credential = ScimCredentials.of(tx).find(named)
    if not rotated or credential is None:
        raise _no_such_credential()
    return ScimCredentialMade(token.reveal(), _shown(credential))


def end_scim_credential(tx: Transaction, call: Call) -> Result:
    """End a credential. Refused: not found."""
    # First, as decision 0015 orders locks.
    ScimCredentials.of(tx).hold_alone()
    require_to_manage(tx, call.actor)
    if not end(tx, call.named("credential_id"), call.now):
        raise _no_such_credential()
    return Result()


def _shown(credential: ScimCredential) -> ScimCredentialShown:
    return converted(ScimCredentialShown, credential)


def _no_such_credential() -> Refused:
    return Refused.because(
        ErrorCode.NOT_FOUND, "this credential does not exist or has ended", "admin.scim"
    )


LIST_SCIM_CREDENTIALS = Operation(
    "list_scim_credentials",
    "GET",
    _ALL,
    Permission.READ,
    "List credentials for provisioning by SCIM",
    reads(list_scim_credentials),
    output=ScimCredentialList,
    commands=(
        Command(
            "scim list",
            columns=(
                ("ID", "id"),
                ("NAME", "name"),
                ("CREATED", "created_at"),
                ("ROTATED", "rotated_at"),
                ("LAST USED", "last_used_at"),
            ),
            empty="There are none. Next: valetkey scim create --help",
        ),
    ),
)


def _scim_off(settings: Settings) -> str:
    is_on = settings.section(ScimSettings).enabled
    return "" if is_on else "It does not work while scim.enabled is false."


CREATE_SCIM_CREDENTIAL = Operation(
    "create_scim_credential",
    "POST",
    _ALL,
    Permission.KEYS,
    "Create a credential for provisioning by SCIM; its token is shown once",
    unchecked_write(create_scim_credential),
    description="It can change users without a role, and groups. Also requires `people`.",
    input=ScimCredentialWanted,
    output=ScimCredentialMade,
    status=201,
    event=ScimCredentialIssued,
    requires_recent_sign_in=True,
    commands=(
        Command(
            "scim create",
            help="Set scim.enabled to serve /scim/v2.",
            example="Okta",
            options=(Option("name", argument=True),),
            done="{token}",
            note="It works until it is rotated or ended. It is shown only now.",
            remark=_scim_off,
        ),
    ),
)

ROTATE_SCIM_CREDENTIAL = Operation(
    "rotate_scim_credential",
    "POST",
    f"{_ONE}/rotate",
    Permission.KEYS,
    "Replace the token of a SCIM credential; the new one is shown once",
    unchecked_write(rotate_scim_credential),
    description="The directory's names of users and groups are kept. Also requires `people`.",
    input=ScimRotation,
    output=ScimCredentialMade,
    event=ScimCredentialRotated,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "rotate",
            translatable("Rotate token"),
            translatable("Creates a new token, which is shown only once."),
            translatable("The token is rotated."),
            shown_for=on(ScimCredentialShown),
            fields=(
                ButtonField(
                    "previous_lives",
                    translatable("The current token expires"),
                    # A token that never ends would not be rotated.
                    SECRET_LIFETIMES[:3],
                ),
            ),
        ),
    ),
    commands=(
        Command(
            "scim rotate",
            options=(
                Option("previous_lives", help="How long the old token works.", duration=True),
            ),
            done="{token}",
            note="The previous token works for the time of --previous-lives.",
            missing=_MISSING,
        ),
    ),
)

END_SCIM_CREDENTIAL = Operation(
    "delete_scim_credential",
    "DELETE",
    _ONE,
    Permission.KEYS,
    "Revoke a SCIM credential: its tokens stop working at once",
    unchecked_write(end_scim_credential),
    description="Its users and groups are kept. Also requires `people`.",
    status=204,
    event=ScimCredentialEnded,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "end",
            translatable("Revoke credential"),
            translatable(
                "The directory can no longer change users and groups: its tokens stop working at "
                "once. Users and groups that it created stay. This cannot be undone."
            ),
            translatable("The credential is revoked."),
            shown_for=on(ScimCredentialShown),
            danger=True,
            irreversible=True,
        ),
    ),
    commands=(
        Command(
            "scim end",
            question="Revoke this credential? Its tokens stop working at once.",
            done="It has ended.",
            missing=_MISSING,
        ),
    ),
)

OPERATIONS = (
    LIST_SCIM_CREDENTIALS,
    CREATE_SCIM_CREDENTIAL,
    ROTATE_SCIM_CREDENTIAL,
    END_SCIM_CREDENTIAL,
)
