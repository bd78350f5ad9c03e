"""/account/email: the address of an account, and the links that are sent to it."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.email_change import EmailAddresses, EmailFault
from valetkey.authorization.authentication.browsers import Cookies
from valetkey.authorization.email.notices import (
    EMAIL,
    EMAIL_CONFIRM,
    EMAIL_UNDO,
    EMAIL_VERIFY,
    RESET,
)
from valetkey.authorization.layout.addresses import HOME, SECURITY
from valetkey.authorization.model.grant import VoucherKind
from valetkey.authorization.site.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    InvalidLinkPage,
    LinkSubject,
    link_in,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    VisitorRequest,
    confirmed,
    retry_after,
    visitor,
)
from valetkey.kernel.text import translatable


class EmailPage(Struct, frozen=True):
    """Show the email address, with a form to change it.

    Posts `csrf`, and `email` to change the address or `verify` to send a verification link.
    """

    template: ClassVar[str] = "account/email_address/email_address.html"
    title: ClassVar[str] = translatable("Email address")

    action: str
    address_now: str
    verified: bool
    #: Whether email can be sent.
    sends_mail: bool
    typed: str = ""
    #: "wrong", "same" or "held"; "" for nothing.
    fault: str = ""
    wait: int = 0
    #: The address to which a link was just sent; "" for none.
    sent_to: str = ""


class EmailLinkPage(Struct, frozen=True):
    """Show the effect of an emailed link, and a button to confirm it. Posts `csrf` and `link`.

    `what` is "change", "verify" or "undo".
    """

    template: ClassVar[str] = "account/email_address/link.html"

    action: str
    link: str
    what: str
    username: str
    email: str


class EmailDonePage(Struct, frozen=True):
    """The context of the page that says that the address is verified."""

    template: ClassVar[str] = "account/email_address/done.html"
    title: ClassVar[str] = translatable("Your address is confirmed")

    email: str
    on_url: str


PURPOSE = "email"
"""The purpose of the CSRF tokens in the forms of links."""

_LONGEST = 400


class EmailAddressPages(Struct, frozen=True):
    """Show the address of the account; send a link to verify it or to change it."""

    change: EmailAddresses

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        title = translatable("Email")
        return (Page(EMAIL, confirmed, self.show, Act(self.send), title=title, under=SECURITY),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the address and the form to change it."""
        return self._form(request)

    async def send(self, request: SignedInRequest) -> Outcome:
        """Send a link to the new address, or to the current one."""
        if not self.change.outbox.is_on:
            return self._form(request)
        user, now = request.user, request.now
        if request.form.get("verify") is not None:
            if user.email_verified_at is not None:
                return SeeOther(EMAIL)
            wait = await self.change.request_verification(user, now)
            return self._form(request, wait=wait, sent_to="" if wait else user.email)
        typed = (request.form.get("email") or "").strip()
        done = await self.change.request_change(request.signed_in, typed, now)
        if isinstance(done, EmailFault):
            return self._form(request, typed, done.value)
        return self._form(request, wait=done, sent_to="" if done else typed)

    def _form(
        self,
        request: SignedInRequest,
        typed: str = "",
        fault: str = "",
        *,
        wait: int = 0,
        sent_to: str = "",
    ) -> Show:
        user = request.user
        context = EmailPage(
            action=EMAIL,
            address_now=user.email,
            verified=user.email_verified_at is not None,
            sends_mail=self.change.outbox.is_on,
            typed=typed[:_LONGEST],
            fault=fault,
            wait=wait,
            sent_to=sent_to,
        )
        status = TOO_MANY if wait else BAD_REQUEST if fault else 200
        return Show(context, status, retry_after(wait))


class EmailLink(Struct, frozen=True):
    """The page of one kind of link."""

    change: EmailAddresses
    cookies: Cookies
    kind: VoucherKind

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        path, met = _PATHS[self.kind], visitor(PURPOSE, self.kind)
        return (Page(path, met, self.show, Act(self.follow)),)

    async def show(self, request: VisitorRequest) -> Outcome:
        """Show what the link does; nothing changes before its button is pressed."""
        link = link_in(request)
        change = await self.change.find_link(self.kind, link, request.now)
        if change is None:
            return self._dead()
        page = EmailLinkPage(
            action=_PATHS[self.kind],
            link=link,
            what=_WORDS[self.kind],
            username=change.user.username,
            email=change.email,
        )
        return Show(page)

    async def follow(self, request: VisitorRequest) -> Outcome:
        """Apply the effect of the link."""
        link, now = request.form.get("link") or "", request.now
        if self.kind is VoucherKind.EMAIL_UNDO:
            reset = await self.change.undo(link, now)
            if reset is None:
                return self._dead()
            # The link in the email allows this, too.
            return SeeOther(f"{RESET}?link={reset.reveal()}", self.cookies.end())
        verifies = self.kind is VoucherKind.EMAIL_VERIFY
        does = self.change.verify if verifies else self.change.confirm
        change = await does(link, now)
        return self._dead() if change is None else Show(EmailDonePage(change.email, HOME))

    def _dead(self) -> Show:
        undo = self.kind is VoucherKind.EMAIL_UNDO
        return Show(InvalidLinkPage(LinkSubject(self.kind.value), HOME if undo else EMAIL), GONE)


_PATHS = {
    VoucherKind.EMAIL_CHANGE: EMAIL_CONFIRM,
    VoucherKind.EMAIL_VERIFY: EMAIL_VERIFY,
    VoucherKind.EMAIL_UNDO: EMAIL_UNDO,
}
_WORDS = {
    VoucherKind.EMAIL_CHANGE: "change",
    VoucherKind.EMAIL_VERIFY: "verify",
    VoucherKind.EMAIL_UNDO: "undo",
}
