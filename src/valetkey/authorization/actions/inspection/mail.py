"""The check of the mail server: connect and sign in, without sending an email."""

from valetkey.authorization.actions.inspection.check import (
    Condition,
    Finding,
    Level,
    NetworkCheck,
)
from valetkey.authorization.email.smtp import MailServer, NotDelivered
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.words import translatable

_PAGE = "how-to/operate/send-mail"
_CONSOLE = ADDRESSES["admin_mail"]

MAIL_OFF = Condition(
    "mail_off",
    Level.WARNING,
    "mail",
    translatable("Email is off: users cannot reset passwords or verify addresses."),
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


CHECKS = (NetworkCheck("mail", mail, (MAIL_OFF, MAILBOX, MAIL_UNREACHABLE, MAIL_GOOD)),)
