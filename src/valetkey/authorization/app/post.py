"""Outgoing email, and the pages its links lead to."""

from collections.abc import Callable, Coroutine
from dataclasses import replace

from valetkey.authorization.deeds.account.mailed.email import EmailChange
from valetkey.authorization.deeds.account.mailed.password_reset import PasswordReset
from valetkey.authorization.deeds.account.mailed.sign_up import SignUp
from valetkey.authorization.deeds.foundation import Foundation
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.site.emailed_link.routes import Mailed
from valetkey.authorization.site.site import Site
from valetkey.authorization.upkeep.post import PostOffice
from valetkey.authorization.upkeep.smtp import MailServer


def make_post(
    foundation: Foundation, site: Site
) -> tuple[Callable[[], Coroutine[object, object, None]], ...]:
    """Build the background jobs that send email; none if email is disabled."""
    mailroom = foundation.mailroom
    if not mailroom.is_on or mailroom.settings.is_mailbox:
        return ()
    send = MailServer.of(foundation.settings).send
    office = PostOffice(foundation.store, mailroom, send, lambda: site.brand, foundation.runtime)
    return (office.deliver,)


def make_mailed(foundation: Foundation, passwords: PasswordSignIn) -> Mailed:
    """Build the pages for sign-up, password reset and change of email address."""
    links, mailroom, accounts = foundation.links, foundation.mailroom, foundation.accounts()
    settings = foundation.settings
    here = replace(passwords, door="mailed")
    return Mailed(
        SignUp(settings.accounts.sign_up, links, mailroom, accounts, here, settings.brand.name),
        foundation.people_invitations,
        PasswordReset(links, mailroom, accounts, here),
        EmailChange(foundation.store, links, mailroom),
    )
