"""Wire email: delivery, and the use cases that an emailed link completes."""

from collections.abc import Callable, Coroutine
from dataclasses import replace

from valetkey.authorization.actions.account.email_change import EmailChange
from valetkey.authorization.actions.account.password_reset import PasswordReset
from valetkey.authorization.actions.account.sign_up import SignUp
from valetkey.authorization.app.foundation import Foundation
from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.email.delivery import MailDelivery
from valetkey.authorization.email.smtp import MailServer
from valetkey.authorization.site.emailed_link.routes import Mailed
from valetkey.authorization.site.site import Site


def make_mail_delivery(
    foundation: Foundation, site: Site
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """Build the background jobs that send email; none if email is disabled."""
    outbox = foundation.outbox
    if not outbox.is_on or outbox.settings.is_mailbox:
        return ()
    send = MailServer.of(foundation.settings).send
    office = MailDelivery(foundation.store, outbox, send, lambda: site.brand, foundation.runtime)
    return (office.deliver,)


def make_mailed(foundation: Foundation, passwords: PasswordSignIn) -> Mailed:
    """Build the pages for sign-up, password reset and change of email address."""
    links, outbox, accounts = foundation.links, foundation.outbox, foundation.accounts()
    settings = foundation.settings
    here = replace(passwords, door="mailed")
    return Mailed(
        SignUp(settings.accounts.sign_up, links, outbox, accounts, here, settings.brand.name),
        foundation.people_invitations,
        PasswordReset(links, outbox, accounts, here),
        EmailChange(foundation.store, links, outbox),
    )
