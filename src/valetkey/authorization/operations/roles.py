"""Operations on roles, and on who may register apps."""

from collections.abc import Sequence

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.event.accounts import (
    DeveloperAdmitted,
    DeveloperDismissed,
    RoleChanged,
)
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
from valetkey.config.sections.portal import Registrants
from valetkey.config.settings import Settings
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


def _no_effect_note(settings: Settings) -> str:
    who = settings.portal.who
    return "" if who is Registrants.INVITED else f'It has no effect while portal.who is "{who}".'


def admit_developer(tx: Transaction, call: Call, user: User) -> bool:
    """Let the user register apps. False if they could."""
    if not tx.members.mark(user.uid, call.now):
        return False
    tx.events.add(DeveloperAdmitted(user.uid), call.now)
    return True


ADMIT_DEVELOPER = Operation(
    "admit_developer",
    "PUT",
    f"{_ONE}/developer",
    Permission.USERS,
    "Let a user register apps",
    on_user(admit_developer),
    output=Done,
    event=DeveloperAdmitted,
    buttons=(
        Button(
            "let-register",
            translatable("Allow app registration"),
            translatable("The user can register apps in the developer portal."),
            translatable("The user can register apps."),
            shown_for=on(UserState, lambda it: it.developer is False),
        ),
    ),
    commands=(
        Command(
            "registration developer",
            help='This is needed where portal.who is "invited".',
            done="{username} may register applications.",
            unchanged="{username} may register applications; nothing changed.",
            remark=_no_effect_note,
        ),
    ),
)


def dismiss_developer(tx: Transaction, call: Call, user: User) -> bool:
    """Stop letting the user register apps; theirs stay. False if they could not."""
    if not tx.members.unmark(user.uid):
        return False
    tx.events.add(DeveloperDismissed(user.uid), call.now)
    return True


DISMISS_DEVELOPER = Operation(
    "dismiss_developer",
    "DELETE",
    f"{_ONE}/developer",
    Permission.USERS,
    "Stop letting a user register apps",
    on_user(dismiss_developer),
    output=Done,
    event=DeveloperDismissed,
    buttons=(
        Button(
            "stop-register",
            translatable("Disallow app registration"),
            translatable("Apps that the user registered keep working."),
            translatable("The user can no longer register apps. Existing apps keep working."),
            shown_for=on(UserState, lambda it: bool(it.developer)),
        ),
    ),
    commands=(
        Command(
            "registration developer",
            off=True,
            done="{username} may not register applications.",
            unchanged="{username} may not register applications; nothing changed.",
            remark=_no_effect_note,
        ),
    ),
)


ROLES = (
    ADMIT_DEVELOPER,
    DISMISS_DEVELOPER,
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
