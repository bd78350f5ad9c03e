"""Operations on accounts: find, create, invite, change, disable, delete."""

from msgspec import UnsetType

from valetkey.authorization.actions.account.passwords import (
    FIRST_LIFETIME,
    has_sign_in_method,
    issue_first_password,
)
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import find_users, user_details
from valetkey.authorization.actions.users import wanted_record
from valetkey.authorization.email.notices import RESET, actor_values, email_to
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import (
    PasswordChanged,
    SetPasswordLinkIssued,
    UserChanged,
    UserDisabled,
    UserEnabled,
    UserRegistered,
    UserRemoved,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.groups import join_groups
from valetkey.authorization.operations.operation import (
    PAGING,
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    InvalidInput,
    Operation,
    Option,
    QueryParameter,
    Result,
    limit_of,
    on,
    on_user,
    reads,
    tag_of,
    writes,
)
from valetkey.authorization.operations.user_records import (
    EmailChange,
    NewUser,
    PasswordLink,
    PasswordLinkIssued,
    PasswordLinkWanted,
    UserAnswer,
    UserChange,
    UserList,
    UserMade,
    UserRead,
    UserState,
    changed_record,
    read,
    shown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.storage.users import Filter
from valetkey.kernel.moment import days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable

ADDRESS = (Option("address.formatted", "--formatted-address"),)
"""The option for a postal address."""

LINK_WORDS = {
    PasswordLink.EMAIL: translatable("Send it by email"),
    PasswordLink.SHOW: translatable("Show it once, to pass on"),
}
"""The ways in which a link reaches the user, translatable."""


def create_user(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create an account with its groups and its role; only commands give it a password."""
    body = call.input(NewUser)
    if body.role is not None:
        require(tx, call.actor, Permission.ROLES)
    uid = None if isinstance(body.uid, UnsetType) else body.uid
    made = call.services.accounts.register(
        tx, wanted_record(body), call.now, uid=uid, password_hash=call.password_hash
    )
    if isinstance(made, tuple):
        return made
    if faults := join_groups(tx, made, body.groups, call.now):
        # Raised, so that the account is rolled back.
        raise InvalidInput(faults)
    if body.role is not None:
        call.services.roles.give(tx, made, body.role, call.now)
    user = tx.users.find(made.uid) or made
    link = None
    if body.password_link is not None:
        link = issue_link(tx, call, user, body.password_link).password_link
    record = shown(user)
    return Result(UserMade(record, link), etag=tag_of(record))


def issue_password_link(tx: Transaction, call: Call, user: User) -> PasswordLinkIssued:
    """Issue the link of an account that has never had a sign-in method."""
    return issue_link(tx, call, user, call.input(PasswordLinkWanted).password_link)


def issue_link(
    tx: Transaction,
    call: Call,
    user: User,
    how: PasswordLink,
    kind: EmailKind = EmailKind.ACCOUNT_CREATED,
) -> PasswordLinkIssued:
    """Issue a set-password link, in the response or by an email of this kind.

    Refused (conflict) for a disabled account, for one with a sign-in method, and where no email
    can be sent.
    """
    if user.disabled_at is not None or has_sign_in_method(tx, user.uid):
        raise _conflict(translatable("the account must be enabled and have no sign-in method"))
    links, link = call.services.links, call.new_secret(Prefix.LINK)
    emailed = how is PasswordLink.EMAIL
    until = issue_first_password(
        tx, links, link, user, call.now, call.actor.done_by, emailed=emailed
    )
    tx.events.add(SetPasswordLinkIssued(user.uid), call.now)
    address = links.address(RESET, link)
    if not emailed:
        return PasswordLinkIssued(address, until)
    values = {
        "username": user.username,
        "days": str(FIRST_LIFETIME // days(1)),
        "link": address,
        **actor_values(tx, user),
    }
    message = email_to(user, kind, values, until)
    if not call.services.outbox.enqueue(tx, message, call.now):
        raise _conflict(
            translatable(
                "no email was sent: mail is off, or the address has reached its hourly limit"
            )
        )
    return PasswordLinkIssued(None, until)


def _conflict(description: str) -> Refused:
    return Refused.because(ErrorCode.CONFLICT, description, "admin.password_link")


MAKE_USER = Operation(
    "create_user",
    "POST",
    "/users",
    Permission.USERS,
    "Create an account",
    writes(create_user),
    description="A `role` also requires the permission `roles`.",
    input=NewUser,
    output=UserMade,
    status=201,
    returns_etag=True,
    error_statuses=(409,),
    event=UserRegistered,
    requires_recent_sign_in=True,
    commands=(
        Command(
            help="The password is typed, read from standard input, or generated and printed. With "
            "--password-link the user chooses it; with --password-link none there is none yet.",
            example="ada --email ada@example.com --generate-password",
            options=(Option("username", argument=True), *ADDRESS),
            sets_password=True,
            instead_of_password="password_link",
            done="{username} has an account; uid {uid}",
        ),
    ),
)

ISSUE_PASSWORD_LINK = Operation(
    "create_password_link",
    "POST",
    "/users/{uid}/password-link",
    Permission.USERS,
    "Issue a link that sets the first password of an account",
    on_user(issue_password_link),
    description="Only for an enabled account without a sign-in method. The link works once, for 7 "
    "days; its use verifies the address to which it was sent.",
    input=PasswordLinkWanted,
    output=PasswordLinkIssued,
    error_statuses=(409,),
    event=SetPasswordLinkIssued,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "password-link",
            translatable("Issue set-password link"),
            translatable(
                "The account has no sign-in method yet. The link lets its user choose a password: "
                "it works once, for 7 days."
            ),
            translatable("The email is queued."),
            shown_for=on(
                UserState, lambda it: not it.details.factors and it.user.disabled_at is None
            ),
            fields=(
                ButtonField(
                    "password_link",
                    translatable("Link"),
                    tuple((how.value, text) for how, text in LINK_WORDS.items()),
                ),
            ),
        ),
    ),
    commands=(Command("user password-link", example="--password-link show"),),
)

NEW_USERS = (MAKE_USER, ISSUE_PASSWORD_LINK)


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
    page = find_users(tx, call.actor, query.get("q", ""), chosen, after, limit_of(query))
    items = [shown(user) for user in page.users]
    return Result(UserList(items, page.more or None), next=page.more)


def read_user(tx: Transaction, call: Call) -> Result:
    """Read one user."""
    idle = call.services.settings.sessions.idle
    details = read(user_details(tx, call.actor, call.uid, idle, call.now))
    return Result(details, etag=tag_of(details.record))


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
