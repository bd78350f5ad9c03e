"""Operations on the sign-in of users, and on the access of apps to their accounts."""

from msgspec import UnsetType

from valetkey.authorization.actions.account.connected_apps import end_app as end_access
from valetkey.authorization.actions.account.email_change import remove_sign_in_methods
from valetkey.authorization.actions.account.passwords import LIFETIME, issue_reset
from valetkey.authorization.actions.account.removal import ExportOrigin, export
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.bulk_revocation import end_consents_of_user
from valetkey.authorization.actions.users import end_everything, sign_out_everywhere
from valetkey.authorization.email.notices import RESET, actor_values, email_to
from valetkey.authorization.model.email import EmailKind
from valetkey.authorization.model.event.accounts import (
    DataExported,
    FactorsRemoved,
    PasswordResetRequested,
    RemovalCancelled,
    SecondFactorWaived,
    SessionEnded,
    UserChanged,
    UserSecured,
)
from valetkey.authorization.model.event.grants import GrantRevoked
from valetkey.authorization.model.user import User, ascii_email
from valetkey.authorization.operations.operation import (
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    File,
    InvalidInput,
    Operation,
    Result,
    on,
    on_user,
)
from valetkey.authorization.operations.user_records import (
    AccountSecured,
    PasswordLinkIssued,
    SessionsEnded,
    UserChange,
    UserState,
    changed_record,
)
from valetkey.authorization.operations.users import LINK_WORDS, issue_link
from valetkey.authorization.protocol.register.faults import fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable

_ONE = "/users/{uid}"
_JSON = "application/json"
_RECENT_EMAIL = fault("email", "email.recent")


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
    output=SessionsEnded,
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
            shown_for=on(UserState, lambda it: bool(it.details.sessions)),
            shows_impact=True,
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
    output=Done,
    error_statuses=(409,),
    event=PasswordResetRequested,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "reset-mail",
            translatable("Send password reset link"),
            translatable(
                "The link is sent to the verified email address. Nothing changes until it is used."
            ),
            translatable("The email is queued."),
            shown_for=on(
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
    output=Done,
    event=FactorsRemoved,
    requires_recent_sign_in=True,
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
            shown_for=on(
                UserState,
                lambda it: any(factor.kind != "password" for factor in it.details.factors),
            ),
            shows_impact=True,
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
    output=Done,
    event=UserChanged,
    buttons=(
        Button(
            "verify-email",
            translatable("Mark email as verified"),
            translatable("Apps receive the address as verified, and some of them rely on that."),
            translatable("The email address is marked as verified."),
            shown_for=on(UserState, lambda it: it.user.email_verified_at is None),
        ),
    ),
)


def end_app(tx: Transaction, call: Call, user: User) -> bool:
    """Revoke the access of one app to the account. False if it had none."""
    return end_access(tx, user.uid, call.named("client_id"), call.now)


END_APP = Operation(
    "delete_user_app",
    "DELETE",
    f"{_ONE}/apps/{{client_id}}",
    Permission.USERS,
    "Revoke the access of one app to an account",
    on_user(end_app),
    output=Done,
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
    commands=(Command("user end-app", confirms=False),),
)


def secure_account(tx: Transaction, call: Call, user: User) -> PasswordLinkIssued:
    """End all access that someone else may have, and issue a set-password link.

    Sessions, grants, consents, remembered browsers, API tokens and open links end, a planned
    deletion is cancelled, and every sign-in method is removed. After the next sign-in the user must
    add a second factor before anything else. Refused (conflict) for a disabled account, and where
    no email can be sent; invalid without an address while a change of it can be undone, because
    either address may be the attacker's.
    """
    body, now = call.input(AccountSecured), call.now
    if user.disabled_at is not None:
        raise Refused.because(
            ErrorCode.CONFLICT, translatable("the account must be enabled"), "admin.secure"
        )
    held_until = tx.users.email_held_until(user.uid)
    if isinstance(body.email, UnsetType):
        if held_until is not None and held_until > now:
            raise InvalidInput((_RECENT_EMAIL,))
    elif ascii_email(body.email) != ascii_email(user.email):
        _correct_email(tx, call, user, body.email)
    # Also where the address stays: the link that undoes its last change may be the attacker's.
    tx.users.release_email(user.uid)
    end_everything(tx, user, now, "account_secured")
    end_consents_of_user(tx, user.uid, now, "account_secured")
    tx.users.drop_password(user.uid)
    remove_sign_in_methods(tx, user.uid, Instant(0), "account_secured", now)
    # Possible for everyone: no setting or address of a server rules out authenticator apps.
    tx.users.require_factor(user.uid, now)
    if tx.account_removals.cancel(user.uid):
        tx.events.add(RemovalCancelled(user.uid), now)
    tx.events.add(UserSecured(user.uid), now)
    # Read again: a new generation began, to which the link must belong.
    secured = tx.users.find(user.uid) or user
    return issue_link(tx, call, secured, body.password_link, EmailKind.ACCOUNT_SECURED)


def _correct_email(tx: Transaction, call: Call, user: User, email: str) -> None:
    """Set the address without a notice: the old one may belong to an attacker."""
    accounts = replace(call.services.accounts, notices=None)
    record = changed_record(user, UserChange(email=email))
    changed = accounts.change(tx, user, record, call.now)
    if isinstance(changed, tuple):
        raise InvalidInput(changed)


SECURE = Operation(
    "secure_user",
    "POST",
    f"{_ONE}/secure",
    Permission.USERS,
    "Secure a compromised account: end all access, require a new password and a second factor",
    on_user(secure_account, but_oneself=True),
    description="Ends sessions, app access, consents, remembered browsers and API tokens. Removes "
    "the password, passkeys, authenticator app, recovery codes and linked accounts. The user gets "
    "a link, by email or from you, that sets a new password once, within 7 days. After the next "
    "sign-in they must add a passkey or an authenticator app before anything else.",
    input=AccountSecured,
    output=PasswordLinkIssued,
    error_statuses=(409,),
    event=UserSecured,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "secure",
            translatable("Secure account"),
            translatable(
                "For an account that someone else may have used. The user is signed out everywhere "
                "and needs the link to set a new password."
            ),
            translatable(
                "The account is secured. The user receives an email with a link that sets a new "
                "password."
            ),
            shown_for=on(UserState, lambda it: it.user.disabled_at is None),
            consequences=(
                translatable("Apps lose access, and ask for permission again."),
                translatable(
                    "The password, passkeys, authenticator app, recovery codes, linked accounts "
                    "and remembered browsers stop working."
                ),
                translatable("API tokens and invitations that the user issued are revoked."),
                translatable(
                    "After the next sign-in, the user must add a passkey or an authenticator app "
                    "before anything else."
                ),
                translatable(
                    "Check the email address. If someone else changed it, enter the right one: "
                    "the old address is not notified, and its links stop working."
                ),
            ),
            shows_impact=True,
            danger=True,
            fields=(
                ButtonField("email", translatable("Email address")),
                ButtonField(
                    "password_link",
                    translatable("Link"),
                    tuple((how.value, text) for how, text in LINK_WORDS.items()),
                ),
            ),
        ),
    ),
    commands=(
        Command(
            "user secure",
            example="--password-link email",
            help="The user gets a link that sets a new password once, within 7 days: by email, or "
            "from you (--password-link show). Give --email if someone else changed the address.",
        ),
    ),
)


def waive_factor(tx: Transaction, call: Call, user: User) -> bool:
    """Require no second factor of the user any more. False if none was required."""
    waived = tx.users.waive_factor(user.uid)
    if waived:
        tx.events.add(SecondFactorWaived(user.uid), call.now)
    return waived


WAIVE_FACTOR = Operation(
    "waive_user_factor",
    "DELETE",
    f"{_ONE}/required-factor",
    Permission.USERS,
    "Stop requiring a second factor of a user whose account was secured",
    on_user(waive_factor, but_oneself=True),
    description="The user can sign in with the new password alone.",
    output=Done,
    error_statuses=(409,),
    event=SecondFactorWaived,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "waive-factor",
            translatable("Stop requiring a second factor"),
            translatable(
                "The account was secured. Without a second factor, its password alone protects it "
                "again."
            ),
            translatable("A second factor is no longer required."),
            shown_for=on(UserState, lambda it: it.user.factor_required_at is not None),
            danger=True,
        ),
    ),
)


def export_data(tx: Transaction, call: Call, user: User) -> Result:
    """Return the file that the user can download, without records of other users."""
    settings = call.services.settings
    origin = ExportOrigin(settings.brand.name, settings.authorization.url, settings.api_url)
    return Result(file=File("account.json", _JSON, export(tx, user, origin, call.now)))


EXPORT_DATA = Operation(
    "export_user",
    "POST",
    f"{_ONE}/export",
    Permission.USERS,
    "A copy of all data about a user",
    on_user(export_data),
    description="The file that users download under *Your data*. The export is itself an event.",
    media=(_JSON,),
    event=DataExported,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "export",
            translatable("Export data"),
            translatable(
                "The file has everything that this server stores about the user, without "
                "passwords, keys and tokens. Give it to the user only."
            ),
            translatable("The data was exported."),
            shown_for=on(UserState),
        ),
    ),
    commands=(
        Command(
            "user export", summary="Print a copy of all data about a user", example="> account.json"
        ),
    ),
)


USER_ACCESS = (
    SIGN_OUT,
    SEND_RESET,
    RESET_FACTORS,
    VERIFY_EMAIL,
    SECURE,
    WAIVE_FACTOR,
    EXPORT_DATA,
    END_APP,
)
