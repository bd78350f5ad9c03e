"""Operations on a registered client: owners, verified mark, state, secrets, legacy grants."""

from collections.abc import Collection

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import Faults
from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.registrations import adopt
from valetkey.authorization.actions.teams import give_owner, remove_member
from valetkey.authorization.email.notices import AppChange
from valetkey.authorization.model.client import DISCOURAGED, Client, GrantTypeName
from valetkey.authorization.model.event.grants import (
    ClientAdopted,
    ClientChanged,
    ClientDisabled,
    ClientEnabled,
    ClientRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
    ClientVerificationEnded,
    ClientVerified,
    TeamMemberAdded,
    TeamMemberRemoved,
)
from valetkey.authorization.operations.client_records import (
    ClientShown,
    NewSecret,
    SecretWanted,
    shown,
)
from valetkey.authorization.operations.clients import ONE, registrar, with_notices
from valetkey.authorization.operations.groups import named_group
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    Operation,
    Result,
    on,
    on_client,
    tag_of,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable


def verify_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Mark the client as verified. False if it was."""
    if not tx.clients.verify(client.id, call.now):
        return False
    tx.events.add(ClientVerified(client.id), call.now)
    return True


VERIFY = Operation(
    "verify_client",
    "PUT",
    f"{ONE}/verified",
    Permission.CLIENTS,
    "Mark a client as verified: the consent page says that you know who runs it",
    on_client(verify_client),
    output=Done,
    event=ClientVerified,
    buttons=(
        Button(
            "verify",
            translatable("Mark as verified"),
            translatable(
                "The consent page shows users that you have verified who runs this app. Check its"
                " redirect URIs first. The mark is removed when its team changes the name, the "
                "logo or a redirect URI."
            ),
            translatable("The app is verified."),
            shown_for=on(Client, lambda it: it.verified_at is None),
        ),
    ),
    commands=(
        Command(
            help="The mark is removed when its team changes its name, logo or redirect URIs.",
            done="{client_id} is verified.",
            unchanged="{client_id} was verified already.",
        ),
    ),
)


def unverify_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Remove the verified mark. False if there was none."""
    if not tx.clients.unverify(client.id):
        return False
    tx.events.add(ClientVerificationEnded(client.id, "administrator"), call.now)
    return True


UNVERIFY = Operation(
    "unverify_client",
    "DELETE",
    f"{ONE}/verified",
    Permission.CLIENTS,
    "Remove the verified mark",
    on_client(unverify_client),
    output=Done,
    event=ClientVerificationEnded,
    buttons=(
        Button(
            "unverify",
            translatable("Remove verified mark"),
            translatable("The consent page no longer shows the mark."),
            translatable("The verified mark is removed."),
            shown_for=on(Client, lambda it: it.verified_at is not None),
        ),
    ),
    commands=(
        Command(
            "client verify",
            off=True,
            done="{client_id} is not verified.",
            unchanged="{client_id} was not verified already.",
        ),
    ),
)


def add_owner(tx: Transaction, call: Call, client: Client) -> bool:
    """Make a user an owner of the client in the developer portal. False if the user is one."""
    if tx.users.find(call.uid) is None or tx.account_removals.is_done(call.uid):
        raise Refused.because(ErrorCode.NOT_FOUND, "this user does not exist", "admin.user")
    return give_owner(tx, client.id, call.uid, call.now)


ADD_OWNER = Operation(
    "add_client_owner",
    "PUT",
    f"{ONE}/owners/{{uid}}",
    Permission.CLIENTS,
    "Make a user an owner of a client, who manages it in the developer portal",
    on_client(with_notices(AppChange.OWNER_ADDED, add_owner)),
    output=Done,
    event=TeamMemberAdded,
    commands=(
        Command(
            "client owner",
            done="{username} owns {client_id}.",
            unchanged="{username} owned {client_id} already.",
        ),
    ),
)


def remove_owner(tx: Transaction, call: Call, client: Client) -> bool:
    """Remove a user from the team of the client. False if the user is not in it."""
    return remove_member(tx, client.id, call.uid, call.now)


REMOVE_OWNER = Operation(
    "remove_client_owner",
    "DELETE",
    f"{ONE}/owners/{{uid}}",
    Permission.CLIENTS,
    "Remove a user from the team of a client",
    on_client(with_notices(AppChange.MEMBER_REMOVED, remove_owner)),
    description="Invitations and all else that the user issued for it end. It may have no owner "
    "then: administrators manage it.",
    output=Done,
    event=TeamMemberRemoved,
    buttons=(
        Button(
            "remove-owner",
            translatable("Remove from team"),
            translatable(
                "The user no longer manages the app in the developer portal. An app without an "
                "owner is managed by administrators."
            ),
            translatable("The user is no longer in the team."),
            danger=True,
            carries=("uid", "uid"),
        ),
    ),
    commands=(
        Command(
            "client remove-owner",
            confirms=False,
            done="{username} is no longer in the team of {client_id}.",
            unchanged="{username} was not in the team of {client_id}; nothing changed.",
        ),
    ),
)


def add_group(tx: Transaction, call: Call, client: Client) -> object:
    """Let the members of a group sign in to the client; False if they may. No other users may.

    Refused: there is no such group. Faults: the client requires too many groups.
    """
    group = named_group(tx, call.named("group"))
    names = client.openid.required_groups
    return group.name not in names and _with_groups(tx, call, client, (*names, group.name))


def remove_group(tx: Transaction, call: Call, client: Client) -> object:
    """Remove a group from those whose members may sign in to the client. False if it is none."""
    name, names = call.named("group"), client.openid.required_groups
    left = tuple(group_name for group_name in names if group_name != name)
    return left != names and _with_groups(tx, call, client, left)


def _with_groups(
    tx: Transaction, call: Call, client: Client, names: tuple[str, ...]
) -> bool | tuple[MetadataError, ...]:
    metadata = metadata_of(client)
    openid = replace(metadata.openid, required_groups=names)
    changed = registrar(call).change(tx, client, replace(metadata, openid=openid), call.now)
    return changed if isinstance(changed, tuple) else True


ADD_GROUP = Operation(
    "add_client_group",
    "PUT",
    f"{ONE}/groups/{{group}}",
    Permission.CLIENTS,
    "Give a group access to a client",
    on_client(with_notices(AppChange.EDITED, add_group)),
    description="All users may sign in to a client without groups; to one with groups, only their "
    "members.",
    output=Done,
    event=ClientChanged,
    commands=(
        Command(
            "client add-group",
            done="Members of {group} can sign in to {client_id}.",
            unchanged="Members of {group} could sign in to {client_id} already.",
        ),
    ),
)
REMOVE_GROUP = Operation(
    "remove_client_group",
    "DELETE",
    f"{ONE}/groups/{{group}}",
    Permission.CLIENTS,
    "Remove the access of a group to a client",
    on_client(with_notices(AppChange.EDITED, remove_group)),
    description="A client without groups admits all users.",
    output=Done,
    event=ClientChanged,
    buttons=(
        Button(
            "remove-group",
            translatable("Remove access of the group"),
            translatable(
                "Members of the group can no longer sign in to the app, unless they are in another"
                " group that has access. If it is the last group, all users can sign in."
            ),
            translatable("The group no longer has access to the app."),
            danger=True,
            carries=("group", "group"),
        ),
    ),
    commands=(
        Command(
            "client remove-group",
            confirms=False,
            done="{group} is no longer among the groups that may use {client_id}.",
            unchanged="{group} was not among the groups that may use {client_id}; nothing changed.",
        ),
    ),
)


def adopt_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Make a self-registered client the operator's own. False if it is."""
    return adopt(tx, client.id, call.now)


ADOPT = Operation(
    "adopt_client",
    "POST",
    f"{ONE}/adopt",
    Permission.CLIENTS,
    "Adopt a self-registered client as your own",
    on_client(adopt_client),
    output=Done,
    event=ClientAdopted,
    buttons=(
        Button(
            "adopt",
            translatable("Adopt app"),
            translatable(
                "The app can no longer change its registration, and it is not removed when it is "
                "unused. The consent page no longer says that it registered itself."
            ),
            translatable("The app is adopted."),
            shown_for=on(Client, lambda it: it.self_registered),
        ),
    ),
    commands=(
        Command(
            "registration adopt",
            help="The consent page no longer says that it has not been reviewed. It is kept even "
            "if it is unused. Only you and its owners can change its registration.",
        ),
    ),
)


def disable_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Disable the client: everything it holds ends. False if it was disabled."""
    return registrar(call).disable(tx, client, call.now)


DISABLE = Operation(
    "disable_client",
    "POST",
    f"{ONE}/disable",
    Permission.CLIENTS,
    "Disable a client: its tokens stop working within seconds",
    on_client(with_notices(AppChange.DISABLED, disable_client)),
    output=Done,
    event=ClientDisabled,
    buttons=(
        Button(
            "disable",
            translatable("Disable app"),
            translatable(
                "All tokens of the app stop working within seconds. Nothing is deleted. If you "
                "enable it again, users must authorize it again."
            ),
            translatable("The app is disabled, and its tokens are revoked."),
            shown_for=on(Client, lambda it: it.disabled_at is None),
            shows_impact=True,
            danger=True,
        ),
    ),
)


def enable_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Enable the client; what ended stays ended. False if it was enabled."""
    return registrar(call).enable(tx, client, call.now)


ENABLE = Operation(
    "enable_client",
    "POST",
    f"{ONE}/enable",
    Permission.CLIENTS,
    "Enable a client; revoked tokens and grants stay revoked",
    on_client(with_notices(AppChange.ENABLED, enable_client)),
    output=Done,
    event=ClientEnabled,
    buttons=(
        Button(
            "enable",
            translatable("Enable app"),
            translatable("The app can ask users for access again. Earlier tokens stay revoked."),
            translatable("The app is enabled."),
            shown_for=on(Client, lambda it: it.disabled_at is not None),
        ),
    ),
)


def delete_client(tx: Transaction, call: Call, client: Client) -> None:
    """Delete the client and everything it holds, and dissolve its team."""
    registrar(call).remove(tx, client, call.now, because="deleted")
    tx.members.remove_all_of(client.id, call.now)


DELETE = Operation(
    "delete_client",
    "DELETE",
    ONE,
    Permission.CLIENTS,
    "Delete a client and everything issued to it; its id is never reused",
    on_client(with_notices(AppChange.DELETED, delete_client)),
    status=204,
    event=ClientRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete app"),
            translatable(
                "The app, its secrets, its team and all its authorizations are deleted. Its "
                "client ID is never reused. This cannot be undone."
            ),
            translatable("The app is deleted."),
            shown_for=on(Client),
            shows_impact=True,
            danger=True,
            irreversible=True,
        ),
    ),
)


CLIENT_STATE = (
    VERIFY,
    UNVERIFY,
    ADD_OWNER,
    REMOVE_OWNER,
    ADD_GROUP,
    REMOVE_GROUP,
    ADOPT,
    DISABLE,
    ENABLE,
    DELETE,
)


_LEGACY_NAMES = tuple(grant_type.value for grant_type in DISCOURAGED)
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
    body = call.input(SecretWanted).others_live
    live = None if body is None else Lifetime(body)
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
        return (fault("grant_type", "grant.only"),)
    return _with_grants(tx, call, client, names)


def _with_grants(
    tx: Transaction, call: Call, client: Client, names: Collection[str]
) -> Result | Faults:
    metadata = replace(metadata_of(client), grant_types=tuple(sorted(names)))
    changed = registrar(call).change(tx, client, metadata, call.now)
    if isinstance(changed, tuple):
        return changed
    record = shown(changed, call.now)
    return Result(record, etag=tag_of(record))


def _legacy(call: Call) -> GrantTypeName:
    name = call.named("grant_type")
    grant_type = next((candidate for candidate in DISCOURAGED if candidate.value == name), None)
    if grant_type is None:
        raise Refused.because(
            ErrorCode.NOT_FOUND,
            "only the grants implicit and password can be changed this way",
            "admin.grant_type",
        )
    return grant_type


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
