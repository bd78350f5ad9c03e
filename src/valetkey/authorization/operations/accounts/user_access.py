"""Operations on the sign-in of users, and on the access of apps to their accounts."""

from valetkey.authorization.actions.account.connected_apps import end_app as end_access
from valetkey.authorization.actions.account.password_reset import LIFETIME, issue_reset
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.users import sign_out_everywhere
from valetkey.authorization.email.links import RESET
from valetkey.authorization.email.notices import actor_values, email_to
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.grants import GrantRevoked
from valetkey.authorization.model.event.sessions import FactorsRemoved, SessionEnded
from valetkey.authorization.model.event.users import (
    PasswordResetRequested,
    UserChanged,
)
from valetkey.authorization.operations.command import Command
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Operation,
    on,
    on_user,
)
from valetkey.authorization.operations.records import Done
from valetkey.authorization.operations.user_records import (
    SessionsEnded,
    UserState,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import Prefix
from valetkey.kernel.words import translatable

_ONE = "/users/{uid}"


def sign_out_user(tx: Transaction, call: Call, user: User) -> SessionsEnded:
    """End every session and the access bound to sessions."""
    return SessionsEnded(sign_out_everywhere(tx, user, call.now))


SIGN_OUT = Operation(
    "sign_out_user",
    "POST",
    f"{_ONE}/sign-out",
    Permission.RESET,
    "End every session of a user",
    on_user(sign_out_user),
    gives=SessionsEnded,
    commands=(
        Command(
            done="{username} is signed out. Sessions ended: {ended}", renamed={"ended": "sessions"}
        ),
    ),
    event=SessionEnded,
    buttons=(
        Button(
            "sign-out",
            translatable("Sign out everywhere"),
            translatable(
                "The user can sign in again. Apps whose access ends with the session lose it."
            ),
            translatable("The user is signed out everywhere."),
            offered=on(UserState, lambda it: bool(it.details.sessions)),
            ends=True,
        ),
    ),
)


def send_reset(tx: Transaction, call: Call, user: User) -> bool:
    """Email the user a link that sets a new password.

    Refused (conflict) where mail is off or the hourly limit is reached, for an address that is not
    verified, and while the account is disabled.
    """
    if user.disabled_at is not None or user.email_verified_at is None:
        raise _conflict(
            translatable("the email address of the user must be verified, and the account enabled")
        )
    links, link = call.services.links, call.new_secret(Prefix.LINK)
    until = issue_reset(tx, links, link, user, call.now, call.actor.done_by)
    values = {
        "username": user.username,
        "minutes": str(LIFETIME // minutes(1)),
        "link": links.address(RESET, link),
        **actor_values(tx, user),
    }
    message = email_to(user, EmailKind.PASSWORD_RESET, values, until)
    if not call.services.outbox.enqueue(tx, message, call.now):
        raise _conflict(
            translatable(
                "no email was sent: mail is off, or the address has reached its hourly limit"
            )
        )
    tx.events.add(PasswordResetRequested(user.uid), call.now)
    return True


def _conflict(description: str) -> Refused:
    return Refused.because(ErrorCode.CONFLICT, description, "admin.reset")


SEND_RESET = Operation(
    "send_user_reset",
    "POST",
    f"{_ONE}/send-reset",
    Permission.RESET,
    "Email a user a link to set a new password",
    on_user(send_reset),
    description="Only to a verified address of an enabled account.",
    gives=Done,
    refuses=(409,),
    event=PasswordResetRequested,
    recent=True,
    buttons=(
        Button(
            "reset-mail",
            translatable("Send password reset link"),
            translatable(
                "The link is sent to the verified email address. Nothing changes until it is used."
            ),
            translatable("The email is queued."),
            offered=on(
                UserState,
                lambda it: (
                    it.sends_mail
                    and it.user.disabled_at is None
                    and it.user.email_verified_at is not None
                ),
            ),
        ),
    ),
)


def reset_factors(tx: Transaction, call: Call, user: User) -> bool:
    """Remove every second factor, sign the user out and notify them. False if there was none."""
    return call.services.accounts.reset_factors(tx, user, call.now)


RESET_FACTORS = Operation(
    "reset_user_factors",
    "POST",
    f"{_ONE}/reset-factors",
    Permission.RESET,
    "Remove a user's second factors, and notify the user by email",
    on_user(reset_factors),
    gives=Done,
    event=FactorsRemoved,
    recent=True,
    buttons=(
        Button(
            "reset-factors",
            translatable("Remove second factors"),
            translatable(
                "Passkeys, authenticator app, recovery codes and remembered browsers are removed. "
                "The password alone signs the user in until another factor is added. Verify that "
                "the request comes from the user."
            ),
            translatable("The second factors are removed, and the user is signed out."),
            offered=on(
                UserState,
                lambda it: any(factor.kind != "password" for factor in it.details.factors),
            ),
            ends=True,
            danger=True,
        ),
    ),
)


def verify_email(tx: Transaction, call: Call, user: User) -> bool:
    """Mark the email address as verified. False if it was."""
    return call.services.accounts.verify_email(tx, user, call.now)


VERIFY_EMAIL = Operation(
    "verify_user_email",
    "POST",
    f"{_ONE}/verify-email",
    Permission.USERS,
    "Record a user's email address as verified",
    on_user(verify_email),
    gives=Done,
    event=UserChanged,
    buttons=(
        Button(
            "verify-email",
            translatable("Mark email as verified"),
            translatable("Apps receive the address as verified, and some of them rely on that."),
            translatable("The email address is marked as verified."),
            offered=on(UserState, lambda it: it.user.email_verified_at is None),
        ),
    ),
)


def end_app(tx: Transaction, call: Call, user: User) -> bool:
    """Revoke the access of one app to the account. False if it had none."""
    return end_access(tx, user.uid, call.named("client_id"), call.now)


END_APP = Operation(
    "end_user_app",
    "DELETE",
    f"{_ONE}/apps/{{client_id}}",
    Permission.USERS,
    "Revoke the access of one app to an account",
    on_user(end_app),
    gives=Done,
    event=GrantRevoked,
    buttons=(
        Button(
            "end-app",
            translatable("Revoke access"),
            translatable("The app loses access within seconds. The user can connect it again."),
            translatable("The app no longer has access."),
            danger=True,
            carries=("app", "client_id"),
        ),
    ),
    commands=(Command(confirms=False),),
)


USER_ACCESS = (SIGN_OUT, SEND_RESET, RESET_FACTORS, VERIFY_EMAIL, END_APP)
