"""Operations on accounts: find, create, change, disable, delete."""

from dataclasses import replace

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.admin.search import find_people, look_at
from valetkey.authorization.actions.users import UserRecord
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.people import (
    UserDisabled,
    UserEnabled,
    UserRemoved,
)
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Operation,
    Parameter,
    Result,
    on_user,
    reads,
    writes,
)
from valetkey.authorization.operations.paging import PAGING, limit_of
from valetkey.authorization.operations.records import Done, tag_of
from valetkey.authorization.operations.user_records import (
    UserAnswer,
    UserChange,
    UserList,
    UserRead,
    UserWanted,
    changed_record,
    read,
    shown,
)
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.storage.administration.people import Filter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable

_LIMIT, _AFTER = PAGING


_QUERY = (
    Parameter(
        "q",
        "The beginning of a name, a user name or an e-mail address; or a uid.",
        {"type": "string", "minLength": 1, "maxLength": 200},
    ),
    Parameter("show", "Only these.", {"type": "string", "enum": [e.value for e in Filter]}),
    _LIMIT,
    replace(_AFTER, schema={"type": "string", "pattern": r"^[0-9a-f]{0,80}\.[0-9]{1,16}$"}),
)


_ONE = "/users/{uid}"


def list_users(tx: Transaction, call: Call) -> Result:
    """List users, newest first, or those that a word finds."""
    query = call.query
    chosen, after = Filter(query.get("show", "all")), query.get("after", "")
    found = find_people(tx, call.actor, query.get("q", ""), chosen, after, limit_of(query))
    items = [shown(user) for user in found.users]
    return Result(UserList(items, found.more or None), next=found.more)


def read_user(tx: Transaction, call: Call) -> Result:
    """Read one user."""
    told = read(look_at(tx, call.actor, call.uid, call.now))
    return Result(told, etag=tag_of(told.record))


def create_user(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create an account without a password."""
    wanted = call.input(UserWanted)
    record = UserRecord(wanted.username, wanted.email, wanted.name, wanted.email_verified)
    return _answer(call.services.accounts.register(tx, record, call.now))


def change_user(tx: Transaction, call: Call, user: User) -> Result | tuple[MetadataError, ...]:
    """Change user name, email address or name, if the user is still as the caller saw it."""
    call.preconditions.check(tag_of(shown(user)))
    record = changed_record(user, call.input(UserChange))
    return _answer(call.services.accounts.change(tx, user, record, call.now))


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
    Permission.PEOPLE,
    "Delete an account and all that is known of its user but the number",
    on_user(delete_user, but_oneself=True),
    description="Apps that nobody else owns stay, without an owner.",
    gives=Done,
    refuses=(404, 409),
    event=UserRemoved,
    recent=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete account"),
            translatable(
                "The account, its factors, its sessions and everything it allowed are deleted. "
                "This cannot be undone."
            ),
            translatable("Account deleted. All its sessions and app access are revoked."),
            for_user=lambda _: True,
            ends=True,
            danger=True,
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
    Permission.PEOPLE,
    "Disable an account: sessions and grants end",
    on_user(disable_user, but_oneself=True),
    gives=Done,
    refuses=(404, 409),
    event=UserDisabled,
    buttons=(
        Button(
            "disable",
            translatable("Disable account"),
            translatable(
                "The user can no longer sign in, and everything they allowed stops working within "
                "seconds. Nothing is deleted."
            ),
            translatable("The account is disabled. Its sessions and app access have ended."),
            for_user=lambda it: it.user.disabled_at is None,
            ends=True,
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
    Permission.PEOPLE,
    "Enable an account; what ended stays ended",
    on_user(enable_user),
    gives=Done,
    refuses=(404,),
    event=UserEnabled,
    buttons=(
        Button(
            "enable",
            translatable("Enable account"),
            translatable(
                "The user can sign in again. Sessions and app access that ended stay ended."
            ),
            translatable("The account is enabled. What had ended stays ended."),
            for_user=lambda it: it.user.disabled_at is not None,
        ),
    ),
)


USERS = (
    Operation(
        "list_users",
        "GET",
        "/users",
        Permission.READ,
        "Users, newest first, or those that a word finds",
        reads(list_users),
        gives=UserList,
        query=_QUERY,
        lists=True,
    ),
    Operation(
        "make_user",
        "POST",
        "/users",
        Permission.PEOPLE,
        "Create an account, without a password",
        writes(create_user),
        takes=UserWanted,
        gives=UserAnswer,
        status=201,
        tagged=True,
    ),
    Operation(
        "read_user",
        "GET",
        _ONE,
        Permission.READ,
        "One user: factors, sessions, connected apps",
        reads(read_user),
        gives=UserRead,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "change_user",
        "PATCH",
        _ONE,
        Permission.PEOPLE,
        "Change user name, email address or name",
        on_user(change_user),
        takes=UserChange,
        gives=UserAnswer,
        guarded=True,
        tagged=True,
        refuses=(404, 409),
    ),
    DISABLE_USER,
    ENABLE_USER,
    DELETE_USER,
)
