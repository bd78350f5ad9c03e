"""Checks of the mail server and the queues: email, sign-out notices, log export."""

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.actions.inspection.check import (
    AUDIT_LOG,
    MAIL,
    SIGN_OUT_NOTICES,
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Installation,
    Level,
    NetworkCheck,
    RemedyButton,
    moment,
)
from valetkey.authorization.email.delivery import MailServer, NotDelivered
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.text import translatable

_STUCK = minutes(10)
_AUDIT_BEHIND = minutes(30)
_CONSOLE = ADDRESSES["admin_mail"]
_TEST = RemedyButton(translatable("Send a test email"), Permission.SETTINGS)
_SHOW = RemedyButton(translatable("Show how email is sent"))
_AUDIT = "how-to/operate/audit-log"

MAIL_STUCK = Condition(
    "mail_stuck",
    Level.ERROR,
    "email queue",
    translatable("Email has been queued for more than ten minutes."),
    translatable("Send a test email and check the mail server's reply."),
    page="how-to/operate/alerts/outbox-stuck",
    console=_CONSOLE,
    remedy=_TEST,
)
SIGN_OUT_NOTICES_STUCK = Condition(
    "apps_untold",
    Level.WARNING,
    "sign-out notices",
    translatable("Some apps do not respond to back-channel logout requests."),
    translatable("Delivery is retried for a day."),
    page="how-to/operate/alerts/outbox-stuck",
)
SIGN_OUT_NOTICES_GOOD = Condition(
    "apps_told",
    Level.OK,
    "sign-out notices",
    translatable("No sign-out notice has been queued for more than ten minutes."),
)
AUDIT_GOOD = Condition(
    "audit_good",
    Level.OK,
    "audit log",
    translatable("No event has waited more than 30 minutes for the hash chain or an export."),
)
NOT_CHAINED = Condition(
    "audit_not_chained",
    Level.WARNING,
    "audit log",
    translatable("Events since %(at)s are not in the hash chain."),
    translatable("Start the server, and look for background.failed in its log."),
    page="how-to/operate/alerts/audit-not-chained",
)
NOT_EXPORTED = Condition(
    "audit_not_exported",
    Level.ERROR,
    "audit export %(name)s",
    translatable("The audit export %(name)s lacks events since %(at)s."),
    translatable("For the reason, see audit.not_exported in the log."),
    page=_AUDIT,
)


def email_queue(tx: Transaction, installation: Installation) -> Findings:
    """Find email that waits too long."""
    if installation.settings.mail.is_on and tx.mails.is_any_due(Instant(installation.now - _STUCK)):
        yield MAIL_STUCK.finding()


def sign_out_notices(tx: Transaction, installation: Installation) -> Findings:
    """Find sign-out notices that wait too long."""
    is_stuck = tx.deliveries.is_any_due(Instant(installation.now - _STUCK))
    yield (SIGN_OUT_NOTICES_STUCK if is_stuck else SIGN_OUT_NOTICES_GOOD).finding()


def audit(tx: Transaction, installation: Installation) -> Findings:
    """Find events that wait for the hash chain, and destinations that are behind."""
    is_good = True
    oldest = tx.audit_chain.oldest_waiting()
    if oldest is not None and installation.now - oldest > _AUDIT_BEHIND:
        is_good = False
        yield NOT_CHAINED.finding(at=moment(oldest))
    waiting = tx.audit_exports.waiting_since()
    for name in installation.settings.audit.export:
        since = waiting.get(name)
        if since is not None and installation.now - since > _AUDIT_BEHIND:
            is_good = False
            yield NOT_EXPORTED.finding(name=name, at=moment(since))
    if is_good:
        yield AUDIT_GOOD.finding()


_PAGE = "how-to/operate/send-mail"

MAIL_OFF = Condition(
    "mail_off",
    Level.WARNING,
    "mail",
    translatable("Email is not configured: users cannot reset passwords or verify addresses."),
    translatable("Set mail.host and mail.from_address."),
    page=_PAGE,
    console=_CONSOLE,
    remedy=_SHOW,
)
MAILBOX = Condition(
    "mailbox",
    Level.WARNING,
    "mail",
    translatable("Emails are not sent: everyone can read them at /mailbox."),
    translatable("Use this for a demo only."),
    page=_PAGE,
    console=_CONSOLE,
    remedy=_SHOW,
)
MAIL_UNREACHABLE = Condition(
    "mail_unreachable",
    Level.ERROR,
    "mail",
    translatable("The mail server %(server)s cannot be used: %(reason)s."),
    translatable("Check mail.host, mail.port, mail.tls, mail.user and the password."),
    page=_PAGE,
    console=_CONSOLE,
    remedy=_TEST,
)
MAIL_GOOD = Condition(
    "mail_good", Level.OK, "mail", translatable("%(server)s accepts connections, %(tls)s.")
)


async def mail(settings: Settings) -> Finding:
    """Connect and sign in to the mail server, in at most 60 seconds."""
    section = settings.mail
    if section.is_mailbox:
        return MAILBOX.finding()
    if not section.is_on:
        return MAIL_OFF.finding()
    server = f"{section.host}:{section.used_port}"
    try:
        await MailServer.from_settings(settings).check()
    except OperatorError as error:
        return MAIL_UNREACHABLE.finding(server=server, reason=error)
    except NotDelivered as failure:
        return MAIL_UNREACHABLE.finding(server=server, reason=failure.reason)
    return MAIL_GOOD.finding(server=server, tls=section.tls.value)


CHECKS = (
    DatabaseCheck("email_queue", email_queue, (MAIL_STUCK,), MAIL),
    DatabaseCheck(
        "sign_out_notices",
        sign_out_notices,
        (SIGN_OUT_NOTICES_STUCK, SIGN_OUT_NOTICES_GOOD),
        SIGN_OUT_NOTICES,
    ),
    DatabaseCheck("audit", audit, (NOT_CHAINED, NOT_EXPORTED, AUDIT_GOOD), AUDIT_LOG),
    NetworkCheck("mail", mail, (MAIL_OFF, MAILBOX, MAIL_UNREACHABLE, MAIL_GOOD), MAIL),
)
