"""The routes of everything that a link in a letter finishes."""

from dataclasses import dataclass

from valetkey.authorization.actions.account.email_change import EmailChange
from valetkey.authorization.actions.account.invitations import Invitations
from valetkey.authorization.actions.account.password_reset import PasswordReset
from valetkey.authorization.actions.account.sign_up import SignUp
from valetkey.authorization.email.links import (
    EMAIL_CONFIRM,
    EMAIL_UNDO,
    EMAIL_VERIFY,
    FORGOTTEN,
    RESET,
    SIGN_UP,
    SIGN_UP_CONFIRM,
)
from valetkey.authorization.model.voucher import VoucherKind
from valetkey.authorization.site.account.email_address.email_address import EmailLinkEndpoint
from valetkey.authorization.site.mailbox.mailbox import mailbox_routes
from valetkey.authorization.site.password_reset.password_reset import RecoveryEndpoint
from valetkey.authorization.site.sign_up.sign_up import SignUpEndpoint
from valetkey.authorization.site.site import Site
from valetkey.web.exchange import Endpoint, Refuse
from valetkey.web.router import Body, Route


@dataclass(frozen=True, slots=True)
class Mailed:
    """The deeds behind the pages."""

    sign_up: SignUp
    invitations: Invitations
    reset: PasswordReset
    email: EmailChange


def mailed_routes(site: Site, deeds: Mailed, refuse: Refuse) -> tuple[Route, ...]:
    """Every page of it, and the mailbox where there is one."""
    sign_up = SignUpEndpoint(site, deeds.sign_up, deeds.invitations)
    recovery = RecoveryEndpoint(site, deeds.reset)

    def form(path: str, get: Endpoint, post: Endpoint) -> Route:
        return Route(path, {"GET": get, "HEAD": get, "POST": post}, refuse, Body.FORM)

    def link(path: str, kind: VoucherKind) -> Route:
        endpoint = EmailLinkEndpoint(site, deeds.email, kind)
        return form(path, endpoint.look, endpoint.act)

    return (
        form(SIGN_UP, sign_up.get, sign_up.post),
        form(SIGN_UP_CONFIRM, sign_up.look, sign_up.finish),
        form(FORGOTTEN, recovery.get, recovery.post),
        form(RESET, recovery.look, recovery.choose),
        link(EMAIL_CONFIRM, VoucherKind.EMAIL_CHANGE),
        link(EMAIL_VERIFY, VoucherKind.EMAIL_VERIFY),
        link(EMAIL_UNDO, VoucherKind.EMAIL_UNDO),
        *mailbox_routes(site, deeds.reset.outbox, refuse),
    )
