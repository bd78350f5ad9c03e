"""Check that the mail server accepts email."""

from collections.abc import AsyncIterator

from valetkey.authorization.email.smtp import MailServer, NotDelivered
from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.config.sections.accounts import SignUp
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import Mistake


async def mail(settings: Settings) -> AsyncIterator[Finding]:
    """Connect and sign in to the mail server, without sending an email."""
    section = settings.mail
    if section.is_mailbox:
        yield mind("mail", "emails are shown at /mailbox, to everyone", "Only a demo wants that.")
        return
    if not section.is_on:
        missing = "Users who forgot their password cannot reset it."
        if settings.accounts.sign_up is not SignUp.OFF:
            missing = "Email addresses of new users are not verified."
        yield mind("mail", "off", f"{missing} Set mail.host and mail.from_address.")
        return
    where = f"{section.host}:{section.used_port}"
    try:
        await MailServer.of(settings).check()
    except Mistake as mistake:
        yield bad("mail", str(mistake))
    except NotDelivered as failure:
        yield bad(
            "mail",
            f"{where}: {failure.reason}",
            "Look at mail.host, mail.port, mail.tls, mail.user and the password.",
        )
    else:
        signed_in = f", signed in as {section.user}" if section.user else ""
        yield good("mail", f"{where} is there{signed_in}, {section.tls}")
