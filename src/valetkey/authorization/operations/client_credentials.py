"""Operations on a client's secrets and legacy grant types."""

from collections.abc import Collection

from valetkey.authorization.actions.admin.clients import Faults
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.email.notices import AppChange
from valetkey.authorization.model.client import DISCOURAGED, Client, GrantTypeName
from valetkey.authorization.model.event.grants import (
    ClientChanged,
    ClientSecretEnded,
    ClientSecretIssued,
)
from valetkey.authorization.operations.client_records import (
    ClientShown,
    NewSecret,
    SecretWanted,
    shown,
)
from valetkey.authorization.operations.clients import ONE, registrar, with_notices
from valetkey.authorization.operations.command import Command
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Operation,
    Result,
    on,
    on_client,
)
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.words import translatable

_LEGACY_NAMES = tuple(each.value for each in DISCOURAGED)
SECRET_LIFETIMES = (
    ("86400", translatable("in a day")),
    ("604800", translatable("in a week")),
    ("0", translatable("now")),
    ("", translatable("never")),
)


def issue_secret(tx: Transaction, call: Call, client: Client) -> NewSecret:
    """Issue another secret; the others end after `others_live`, or never where that is None.

    Refused (conflict) where two secrets work already, and for a client that uses none.
    """
    wanted = call.input(SecretWanted).others_live
    live = None if wanted is None else Lifetime(wanted)
    secret = call.new_secret(Prefix.CLIENT_SECRET)
    if faults := registrar(call).issue_secret(tx, client, secret, call.now, others_live=live):
        raise Refused.because(ErrorCode.CONFLICT, faults[0].detail, "admin.no_secret")
    return NewSecret(secret.reveal())


def end_secret(tx: Transaction, call: Call, client: Client) -> None:
    """Revoke one secret. Refused (not found) if it is not valid any more."""
    if not registrar(call).end_secret(tx, client, call.named("secret_id"), call.now):
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this secret does not exist or has ended", "admin.secret"
        )


def allow_grant(tx: Transaction, call: Call, client: Client) -> Result | Faults:
    """Enable a legacy grant type."""
    names = client.grant_types | {_legacy(call)}
    return _with_grants(tx, call, client, names)


def end_grant(tx: Transaction, call: Call, client: Client) -> Result | Faults:
    """Disable a legacy grant type, unless it is the only one."""
    names = client.grant_types - {_legacy(call)}
    if not names:
        return (
            MetadataError(
                "grant_type",
                "this is the only grant type of the client: disable the client instead",
            ),
        )
    return _with_grants(tx, call, client, names)


def _with_grants(
    tx: Transaction, call: Call, client: Client, names: Collection[str]
) -> Result | Faults:
    wanted = replace(metadata_of(client), grant_types=tuple(sorted(names)))
    changed = registrar(call).change(tx, client, wanted, call.now)
    if isinstance(changed, tuple):
        return changed
    record = shown(changed, call.now)
    return Result(record, etag=tag_of(record))


def _legacy(call: Call) -> GrantTypeName:
    name = call.named("grant_type")
    found = next((each for each in DISCOURAGED if each.value == name), None)
    if found is None:
        raise Refused.because(
            ErrorCode.NOT_FOUND,
            "only the grants implicit and password can be changed this way",
            "admin.grant_type",
        )
    return found


def _can_allow(grant_type: GrantTypeName, client: Client) -> bool:
    return (
        grant_type not in client.grant_types
        and client.profile.implicit_and_password
        and not (grant_type is GrantTypeName.PASSWORD and client.is_public)
    )


SECRET = Operation(
    "create_client_secret",
    "POST",
    f"{ONE}/secrets",
    Permission.CLIENTS,
    "Issue another secret, shown this once",
    on_client(with_notices(AppChange.SECRET_ISSUED, issue_secret)),
    input=SecretWanted,
    output=NewSecret,
    status=201,
    error_statuses=(409,),
    event=ClientSecretIssued,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "secret",
            translatable("Issue a new secret"),
            translatable("The secret is shown once. Existing secrets work until they expire."),
            translatable("A new secret is issued."),
            shown_for=on(Client, lambda it: it.has_secret),
            fields=(
                ButtonField(
                    "others_live", translatable("Existing secrets expire"), SECRET_LIFETIMES
                ),
            ),
        ),
    ),
    # `client secret` also makes secrets for files, and is written by hand.
    commands=(),
)
END_SECRET = Operation(
    "delete_client_secret",
    "DELETE",
    f"{ONE}/secrets/{{secret_id}}",
    Permission.CLIENTS,
    "Revoke one secret of a client now",
    on_client(with_notices(AppChange.SECRET_REVOKED, end_secret)),
    status=204,
    event=ClientSecretEnded,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "end-secret",
            translatable("Revoke secret"),
            translatable(
                "Programs that still use this secret can no longer get tokens. If it is the "
                "only one, the app stops working until you issue a new one."
            ),
            translatable("The secret is revoked."),
            danger=True,
            carries=("secret", "secret_id"),
        ),
    ),
    commands=(Command("client end-secret"),),
)
ALLOW_GRANT = Operation(
    "enable_legacy_grant",
    "PUT",
    f"{ONE}/legacy/{{grant_type}}",
    Permission.CLIENTS,
    "Enable the implicit or the password grant",
    on_client(with_notices(AppChange.EDITED, allow_grant)),
    description="Requires the classic profile; `password` also requires a confidential client.",
    output=ClientShown,
    returns_etag=True,
    event=ClientChanged,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "allow-implicit",
            translatable("Enable implicit grant"),
            translatable(
                "Access tokens are then passed in a page's URL, where browser history and scripts"
                " can read them. Use it only for an app that cannot be changed; newer apps use "
                "the authorization code grant with PKCE."
            ),
            translatable("The implicit grant is enabled."),
            shown_for=on(Client, lambda it: _can_allow(GrantTypeName.IMPLICIT, it)),
            danger=True,
            path_arguments={"grant_type": "implicit"},
        ),
        Button(
            "allow-password",
            translatable("Enable password grant"),
            translatable(
                "Users then enter their password in this app. There is no consent page, no "
                "passkey and no second factor. Use it only for an app of your own that cannot be "
                "changed."
            ),
            translatable("The password grant is enabled."),
            shown_for=on(Client, lambda it: _can_allow(GrantTypeName.PASSWORD, it)),
            danger=True,
            path_arguments={"grant_type": "password"},
        ),
    ),
    commands=tuple(
        Command(
            f"client allow-{name}",
            summary=f"Enable the {name} grant",
            path_arguments={"grant_type": name},
        )
        for name in _LEGACY_NAMES
    ),
)
END_GRANT = Operation(
    "disable_legacy_grant",
    "DELETE",
    f"{ONE}/legacy/{{grant_type}}",
    Permission.CLIENTS,
    "Disable the implicit or the password grant",
    on_client(with_notices(AppChange.EDITED, end_grant)),
    output=ClientShown,
    returns_etag=True,
    event=ClientChanged,
    buttons=(
        Button(
            "end-implicit",
            translatable("Disable implicit grant"),
            translatable(
                "The app can no longer get tokens with this grant. Existing tokens work until "
                "they expire."
            ),
            translatable("The implicit grant is disabled."),
            shown_for=on(Client, lambda it: GrantTypeName.IMPLICIT in it.grant_types),
            path_arguments={"grant_type": "implicit"},
        ),
        Button(
            "end-password",
            translatable("Disable password grant"),
            translatable(
                "The app can no longer get tokens with this grant. Existing tokens work until "
                "they expire."
            ),
            translatable("The password grant is disabled."),
            shown_for=on(Client, lambda it: GrantTypeName.PASSWORD in it.grant_types),
            path_arguments={"grant_type": "password"},
        ),
    ),
    commands=tuple(
        Command(
            f"client allow-{name}",
            summary=f"Disable the {name} grant",
            path_arguments={"grant_type": name},
            off=True,
        )
        for name in _LEGACY_NAMES
    ),
)
CREDENTIALS = (SECRET, END_SECRET, ALLOW_GRANT, END_GRANT)
