"""Checks of the mail server and the queues: email, sign-out notices, log export."""

from valetkey.authorization.actions.inspection.check import (
    Condition,
    DatabaseCheck,
    Finding,
    Findings,
    Level,
    NetworkCheck,
    Site,
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
_AUDIT = "how-to/operate/audit-log"

MAIL_STUCK = Condition(
    "mail_stuck",
    Level.ERROR,
    "email queue",
    translatable("Email has been queued for more than ten minutes."),
    translatable("Send a test email and check the mail server's reply."),
    page="how-to/operate/alerts/outbox-stuck",
    console=ADDRESSES["admin_mail"],
)
SIGN_OUT_NOTICES_STUCK = Condition(
    "apps_untold",
    Level.WARNING,
    "sign-out notices",
    translatable("Some apps do not respond to back-channel logout requests."),
    translatable("Delivery is retried for a day."),
    page="how-to/operate/alerts/outbox-stuck",
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


def outboxes(tx: Transaction, site: Site) -> Findings:
    """Find email and sign-out notices that wait too long."""
    before = Instant(site.now - _STUCK)
    if site.settings.mail.is_on and tx.mails.is_any_due(before):
        yield MAIL_STUCK.found()
    if tx.deliveries.is_any_due(before):
        yield SIGN_OUT_NOTICES_STUCK.found()


def audit(tx: Transaction, site: Site) -> Findings:
    """Find events that wait for the hash chain, and destinations that are behind."""
    oldest = tx.audit_chain.oldest_waiting()
    if oldest is not None and site.now - oldest > _AUDIT_BEHIND:
        yield NOT_CHAINED.found(at=moment(oldest))
    waiting = tx.audit_exports.waiting_since()
    for name in site.settings.audit.export:
        since = waiting.get(name)
        if since is not None and site.now - since > _AUDIT_BEHIND:
            yield NOT_EXPORTED.found(name=name, at=moment(since))


_PAGE = "how-to/operate/send-mail"
_CONSOLE = ADDRESSES["admin_mail"]

MAIL_OFF = Condition(
    "mail_off",
    Level.WARNING,
    "mail",
    translatable("Email is not configured: users cannot reset passwords or verify addresses."),
    translatable("Set mail.host and mail.from_address."),
    page=_PAGE,
    console=_CONSOLE,
)
MAILBOX = Condition(
    "mailbox",
    Level.WARNING,
    "mail",
    translatable("Emails are not sent: everyone can read them at /mailbox."),
    translatable("Use this for a demo only."),
    page=_PAGE,
    console=_CONSOLE,
)
MAIL_UNREACHABLE = Condition(
    "mail_unreachable",
    Level.ERROR,
    "mail",
    translatable("The mail server %(server)s cannot be used: %(reason)s."),
    translatable("Check mail.host, mail.port, mail.tls, mail.user and the password."),
    page=_PAGE,
    console=_CONSOLE,
)
MAIL_GOOD = Condition("mail_good", Level.OK, "mail", "%(server)s accepts connections, %(tls)s.")


async def mail(settings: Settings) -> Finding:
    """Connect and sign in to the mail server, in at most 60 seconds."""
    section = settings.mail
    if section.is_mailbox:
        return MAILBOX.found()
    if not section.is_on:
        return MAIL_OFF.found()
    server = f"{section.host}:{section.used_port}"
    try:
        await MailServer.of(settings).check()
    except OperatorError as error:
        return MAIL_UNREACHABLE.found(server=server, reason=error)
    except NotDelivered as failure:
        return MAIL_UNREACHABLE.found(server=server, reason=failure.reason)
    return MAIL_GOOD.found(server=server, tls=section.tls.value)


CHECKS = (
    DatabaseCheck("outboxes", outboxes, (MAIL_STUCK, SIGN_OUT_NOTICES_STUCK)),
    DatabaseCheck("audit", audit, (NOT_CHAINED, NOT_EXPORTED)),
    NetworkCheck("mail", mail, (MAIL_OFF, MAILBOX, MAIL_UNREACHABLE, MAIL_GOOD)),
)
