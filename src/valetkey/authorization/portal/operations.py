"""Operations on who may register apps."""

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.event.accounts import DeveloperAdmitted, DeveloperDismissed
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Command,
    Done,
    Operation,
    on,
    on_user,
)
from valetkey.authorization.operations.user_records import (
    UserState,
)
from valetkey.authorization.portal.settings import PortalSettings, Registrants
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.text import translatable


def _no_effect_note(settings: Settings) -> str:
    who = settings.section(PortalSettings).who
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
    "/users/{uid}/developer",
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
    "/users/{uid}/developer",
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


OPERATIONS = (ADMIT_DEVELOPER, DISMISS_DEVELOPER)
