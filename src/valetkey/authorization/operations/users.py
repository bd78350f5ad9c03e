"""Operations on accounts: find, create, change, disable, delete."""

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import find_users, user_details
from valetkey.authorization.model.event.accounts import (
    PasswordChanged,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserRemoved,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.accounts.new_users import ADDRESS, NEW_USERS
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    PAGING,
    Button,
    ButtonField,
    Call,
    Operation,
    QueryParameter,
    Result,
    limit_of,
    on,
    on_user,
    reads,
)
from valetkey.authorization.operations.records import Done, tag_of
from valetkey.authorization.operations.user_records import (
    EmailChange,
    UserAnswer,
    UserChange,
    UserList,
    UserRead,
    UserState,
    changed_record,
    read,
    shown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.users import Filter
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable

_LIMIT, _AFTER = PAGING


_QUERY = (
    QueryParameter(
        "q",
        "Part of a name, a username or an email address; or a uid.",
        {"type": "string", "minLength": 1, "maxLength": 200},
    ),
    QueryParameter(
        "show", "Only these users.", {"type": "string", "enum": [e.value for e in Filter]}
    ),
    _LIMIT,
    replace(_AFTER, schema={"type": "string", "pattern": r"^[0-9a-f]{0,80}\.[0-9]{1,16}$"}),
)


_ONE = "/users/{uid}"


def list_users(tx: Transaction, call: Call) -> Result:
    """List users, newest first, or those that a word finds."""
    query = call.query
    chosen, after = Filter(query.get("show", "all")), query.get("cursor", "")
    found = find_users(tx, call.actor, query.get("q", ""), chosen, after, limit_of(query))
    items = [shown(user) for user in found.users]
    return Result(UserList(items, found.more or None), next=found.more)


def read_user(tx: Transaction, call: Call) -> Result:
    """Read one user."""
    idle = call.services.settings.sessions.idle
    told = read(user_details(tx, call.actor, call.uid, idle, call.now))
    return Result(told, etag=tag_of(told.record))


def change_user(tx: Transaction, call: Call, user: User) -> Result | tuple[MetadataError, ...]:
    """Change the profile data of an account, if it is still the version that the caller saw."""
    call.preconditions.check(tag_of(shown(user)))
    record = changed_record(user, call.input(UserChange))
    return _answer(call.services.accounts.change(tx, user, record, call.now))


def change_email(tx: Transaction, call: Call, user: User) -> Result | tuple[MetadataError, ...]:
    """Change the email address. The old one is notified, with a link that undoes the change."""
    record = changed_record(user, UserChange(email=call.input(EmailChange).email))
    return _answer(call.services.accounts.change(tx, user, record, call.now))


CHANGE_EMAIL = Operation(
    "change_user_email",
    "PUT",
    f"{_ONE}/email",
    Permission.USERS,
    "Change the email address of a user",
    on_user(change_email),
    description="The old address is notified and can undo the change for a week.",
    input=EmailChange,
    output=UserAnswer,
    event=UserChanged,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "email",
            translatable("Change email address"),
            translatable(
                "The old address is notified, with a link that undoes the change for a week. The "
                "new address counts as unverified until the user confirms it."
            ),
            translatable("The email address is changed, and the old address was notified."),
            shown_for=on(UserState),
            fields=(ButtonField("email", translatable("Email address")),),
        ),
    ),
    commands=(Command(options=(Option("email", argument=True),), example="ada@lovelace.example"),),
)


def set_password(tx: Transaction, call: Call, user: User) -> bool:
    """Set the password whose hash the call carries; sessions and grants end."""
    if call.password_hash is None:
        raise TypeError("no password was given")
    call.services.accounts.set_password(tx, user, call.password_hash, call.now)
    return True


SET_PASSWORD = Operation(
    "set_user_password",
    "PUT",
    f"{_ONE}/password",
    Permission.USERS,
    "Set a user's password; sessions and app access end",
    on_user(set_password),
    output=Done,
    event=PasswordChanged,
    commands=(
        Command(
            "user password",
            example="--generate-password",
            sets_password=True,
            done="{username} has another password, and is signed out everywhere.",
        ),
    ),
)


def _answer(made: User | tuple[MetadataError, ...]) -> Result | tuple[MetadataError, ...]:
    if isinstance(made, tuple):
        return made
    record = shown(made)
    return Result(UserAnswer(record), etag=tag_of(record))


def delete_user(tx: Transaction, call: Call, user: User) -> bool:
    """Delete the account at once; False if it is gone. Apps without another owner stay."""
    return call.services.removal.remove(tx, user, call.now)


DELETE_USER = Operation(
    "delete_user",
    "DELETE",
    _ONE,
    Permission.USERS,
    "Delete an account and all data about its user",
    on_user(delete_user, but_oneself=True),
    description="Apps without another owner remain, without an owner.",
    output=Done,
    error_statuses=(409,),
    event=UserRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete account"),
            translatable(
                "The account, its sign-in methods, sessions and authorizations are deleted. This "
                "cannot be undone."
            ),
            translatable("Account deleted. All its sessions and app access are revoked."),
            shown_for=on(UserState),
            shows_impact=True,
            danger=True,
            irreversible=True,
        ),
    ),
)


def disable_user(tx: Transaction, call: Call, user: User) -> bool:
    """Disable the account: sessions and grants end. False if it was disabled."""
    return call.services.accounts.disable(tx, user, call.now)


DISABLE_USER = Operation(
    "disable_user",
    "POST",
    f"{_ONE}/disable",
    Permission.USERS,
    "Disable an account: sessions and grants end",
    on_user(disable_user, but_oneself=True),
    output=Done,
    error_statuses=(409,),
    event=UserDisabled,
    buttons=(
        Button(
            "disable",
            translatable("Disable account"),
            translatable(
                "The user can no longer sign in, and connected apps lose access within seconds. "
                "Nothing is deleted."
            ),
            translatable("The account is disabled. Its sessions and app access have ended."),
            shown_for=on(UserState, lambda it: it.user.disabled_at is None),
            shows_impact=True,
            danger=True,
        ),
    ),
)


def enable_user(tx: Transaction, call: Call, user: User) -> bool:
    """Enable the account; what ended stays ended. False if it was enabled."""
    return call.services.accounts.enable(tx, user, call.now)


ENABLE_USER = Operation(
    "enable_user",
    "POST",
    f"{_ONE}/enable",
    Permission.USERS,
    "Enable an account; ended sessions and grants stay ended",
    on_user(enable_user),
    output=Done,
    event=UserEnabled,
    buttons=(
        Button(
            "enable",
            translatable("Enable account"),
            translatable(
                "The user can sign in again. Sessions and app access that ended stay ended."
            ),
            translatable("The account is enabled. Ended sessions and app access stay ended."),
            shown_for=on(UserState, lambda it: it.user.disabled_at is not None),
        ),
    ),
)


CHANGE_USER = Operation(
    "change_user",
    "PATCH",
    _ONE,
    Permission.USERS,
    "Change the profile data of an account",
    on_user(change_user),
    description="Fields that are absent stay as they are.",
    input=UserChange,
    output=UserAnswer,
    requires_if_match=True,
    returns_etag=True,
    error_statuses=(409,),
    event=UserChanged,
    requires_recent_sign_in=True,
    commands=(
        Command(
            help="Omitted options change nothing; an empty text removes a claim.",
            example="--given-name Ada --phone-number +442079460000",
            options=ADDRESS,
        ),
    ),
)

USERS = (
    Operation(
        "list_users",
        "GET",
        "/users",
        Permission.READ,
        "List users, newest first, or search for them",
        reads(list_users),
        output=UserList,
        query=_QUERY,
        returns_list=True,
        commands=(
            Command(
                columns=(
                    ("UID", "uid"),
                    ("USERNAME", "username"),
                    ("EMAIL", "email"),
                    ("NAME", "name"),
                    ("ROLE", "role"),
                    ("CREATED", "created_at"),
                    ("DISABLED", "disabled_at"),
                ),
                empty="There are no accounts yet. Next: valetkey user create --help",
            ),
        ),
    ),
    *NEW_USERS,
    Operation(
        "read_user",
        "GET",
        _ONE,
        Permission.READ,
        "Show a user with second factors, sessions and connected apps",
        reads(read_user),
        output=UserRead,
        returns_etag=True,
    ),
    CHANGE_USER,
    CHANGE_EMAIL,
    DISABLE_USER,
    ENABLE_USER,
    DELETE_USER,
)
