"""Operations that create an account and let its user choose the first password."""

from msgspec import UnsetType

from valetkey.authorization.actions.account.password_reset import (
    FIRST_LIFETIME,
    has_sign_in_method,
    issue_first_password,
)
from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.user_input import wanted_record
from valetkey.authorization.email.links import RESET
from valetkey.authorization.email.notices import actor_values, email_to
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import SetPasswordLinkIssued, UserRegistered
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.groups.members import join_groups
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    InvalidInput,
    Operation,
    Result,
    on,
    on_user,
    writes,
)
from valetkey.authorization.operations.records import tag_of
from valetkey.authorization.operations.user_records import (
    NewUser,
    PasswordLink,
    PasswordLinkIssued,
    PasswordLinkWanted,
    UserMade,
    UserState,
    shown,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Prefix
from valetkey.kernel.words import translatable

ADDRESS = (Option("address.formatted", "--formatted-address"),)
"""The option for a postal address."""

LINK_WORDS = {
    PasswordLink.EMAIL: translatable("Send it by email"),
    PasswordLink.SHOW: translatable("Show it once, to pass on"),
}
"""The ways in which a link reaches the user, translatable."""


def create_user(tx: Transaction, call: Call) -> Result | tuple[MetadataError, ...]:
    """Create an account with its groups and its role; only commands give it a password."""
    wanted = call.input(NewUser)
    if wanted.role is not None:
        require(tx, call.actor, Permission.ROLES)
    uid = None if isinstance(wanted.uid, UnsetType) else wanted.uid
    made = call.services.accounts.register(
        tx, wanted_record(wanted), call.now, uid=uid, password_hash=call.password_hash
    )
    if isinstance(made, tuple):
        return made
    if faults := join_groups(tx, made, wanted.groups, call.now):
        # Raised, so that the account is rolled back.
        raise InvalidInput(faults)
    if wanted.role is not None:
        call.services.roles.give(tx, made, wanted.role, call.now)
    user = tx.users.find(made.uid) or made
    link = None
    if wanted.password_link is not None:
        link = issue_link(tx, call, user, wanted.password_link).password_link
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
            "--password-link the user chooses it.",
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
