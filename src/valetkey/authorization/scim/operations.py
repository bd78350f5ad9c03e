"""Operations on the credentials of programs that provision users by SCIM."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission
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
    reads,
    unchecked_write,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.scim import rules as scim
from valetkey.authorization.scim.model import (
    ScimCredential,
    ScimCredentialEnded,
    ScimCredentialIssued,
    ScimCredentialRotated,
)
from valetkey.authorization.scim.storage import ScimCredentials
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable

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
    return ScimCredentialList([_shown(each) for each in ScimCredentials.of(tx).live(scim.MOST)])


def create_scim_credential(
    tx: Transaction, call: Call
) -> ScimCredentialMade | tuple[MetadataError, ...]:
    """Issue a credential for a directory."""
    scim.require_to_manage(tx, call.actor)
    name = call.input(ScimCredentialWanted).name
    credential = ScimCredential(call.new_id("sc"), name, call.now)
    token = call.new_secret(Prefix.SCIM_TOKEN)
    if faults := scim.issue(tx, call.services.fingerprints, credential, token):
        return faults
    return ScimCredentialMade(token.reveal(), _shown(credential))


def rotate_scim_credential(tx: Transaction, call: Call) -> ScimCredentialMade:
    """Replace the token of a credential. Refused: not found."""
    scim.require_to_manage(tx, call.actor)
    named, key = call.named("credential_id"), call.services.fingerprints
    token, keep = call.new_secret(Prefix.SCIM_TOKEN), call.input(ScimRotation).previous_lives
    rotated = scim.rotate(tx, key, named, token, Lifetime(keep), call.now)
    credential = ScimCredentials.of(tx).find(named)
    if not rotated or credential is None:
        raise _no_such_credential()
    return ScimCredentialMade(token.reveal(), _shown(credential))


def end_scim_credential(tx: Transaction, call: Call) -> Result:
    """End a credential. Refused: not found."""
    # First, as decision 0015 orders locks.
    ScimCredentials.of(tx).hold_alone()
    scim.require_to_manage(tx, call.actor)
    if not scim.end(tx, call.named("credential_id"), call.now):
        raise _no_such_credential()
    return Result()


def _shown(credential: ScimCredential) -> ScimCredentialShown:
    return ScimCredentialShown(
        credential.id,
        credential.name,
        credential.created_at,
        credential.rotated_at,
        credential.last_used_at,
    )


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
