"""Operations on roles, and on who may register apps."""

from collections.abc import Sequence

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.event.accounts import RoleChanged
from valetkey.authorization.model.user import Role, User
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Operation,
    on,
    on_user,
    reads,
)
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.user_records import (
    Holders,
    RoleHolderShown,
    RoleWanted,
    UserState,
    shown,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable

NO_ROLE = "none"
"""The value that forms and commands use for "no role"."""


ROLE_WORDS = {
    Role.OWNER: translatable("Owner"),
    Role.ADMINISTRATOR: translatable("Administrator"),
    Role.SUPPORT: translatable("Support"),
    Role.AUDITOR: translatable("Auditor"),
}
"""The names of the roles, translatable."""


_ONE = "/users/{uid}"


_ROLES: Sequence[tuple[str, str]] = (
    (NO_ROLE, translatable("No role")),
    *((role.value, ROLE_WORDS[role]) for role in Role),
)


def give_role(tx: Transaction, call: Call, user: User) -> bool:
    """Replace the user's role, or remove it. Refused (conflict) for the last owner."""
    return call.services.roles.give(tx, user, call.input(RoleWanted).role, call.now)


GIVE_ROLE = Operation(
    "set_user_role",
    "PUT",
    f"{_ONE}/role",
    Permission.ROLES,
    "Assign a role to a user, or remove it",
    on_user(give_role),
    description="The last owner keeps the role: 409.",
    input=RoleWanted,
    output=Done,
    error_statuses=(409,),
    event=RoleChanged,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "role",
            translatable("Change role"),
            translatable("The user is notified by email. A role allows:"),
            translatable("The role is changed, and the user was notified."),
            shown_for=on(UserState),
            fields=(ButtonField("role", translatable("Role"), _ROLES),),
        ),
    ),
    commands=(
        Command(
            "user role",
            help="`none` removes the role. An owner may do everything; an administrator everything "
            "but roles; support reads, and helps users recover their accounts; an auditor reads.",
            example="administrator",
            options=(Option("role", argument=True),),
            done="The role of {username} is changed.",
        ),
    ),
)


def list_roles(tx: Transaction, call: Call) -> Holders:
    """List the users with a role."""
    found = call.services.roles.holders(tx)
    return Holders([RoleHolderShown(shown(each.user), each.protected) for each in found])


ROLES = (
    GIVE_ROLE,
    Operation(
        "list_roles",
        "GET",
        "/roles",
        Permission.READ,
        "List users with a role",
        reads(list_roles),
        output=Holders,
        commands=(
            Command(
                "user roles",
                columns=(
                    ("ROLE", "role"),
                    ("UID", "uid"),
                    ("USERNAME", "username"),
                    ("SECOND FACTOR", "protected"),
                    ("DISABLED", "disabled_at"),
                ),
                empty="No roles assigned yet. Next: valetkey owner",
            ),
        ),
    ),
)
