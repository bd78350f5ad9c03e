"""/account/email: the address of an account, and the links that are sent to it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.account.email_change import EmailChange, EmailFault
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.email.links import (
    EMAIL,
    EMAIL_CONFIRM,
    EMAIL_UNDO,
    EMAIL_VERIFY,
    RESET,
)
from valetkey.authorization.layout.addresses import HOME, SECURITY
from valetkey.authorization.model.voucher import VoucherKind
from valetkey.authorization.site.emailed_link.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    DeadLinkPage,
    Matter,
    link_in,
    read,
    shown,
)
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed,
)
from valetkey.authorization.site.presentation import Renderer
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request, Response, see_other


@dataclass(frozen=True, slots=True)
class EmailPage:
    """Show the address, and ask for another one.

    Posts `csrf`, and `email` to change it or `verify` to have it proven.
    """

    template: ClassVar[str] = "account/email_address/email_address.html"

    action: str
    csrf: str
    address_now: str
    verified: bool
    #: Whether letters can be sent at all.
    sends_mail: bool
    typed: str = ""
    #: "wrong", "same" or "held"; "" for nothing.
    fault: str = ""
    wait: int = 0
    #: Where a link was just sent; "" for nowhere.
    sent_to: str = ""


@dataclass(frozen=True, slots=True)
class EmailLinkPage:
    """What a link would do, with the button that does it. Posts `csrf` and `link`.

    `what` is "change", "verify" or "undo".
    """

    template: ClassVar[str] = "account/email_address/link.html"

    action: str
    csrf: str
    link: str
    what: str
    username: str
    email: str


@dataclass(frozen=True, slots=True)
class EmailDonePage:
    """The address is theirs."""

    template: ClassVar[str] = "account/email_address/done.html"

    email: str
    on_url: str


PURPOSE = "email"
"""The purpose of the links' forms."""

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Email:
    """Show the address of the account; send a link to verify it or to change it."""

    change: EmailChange

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        title = translatable("Email")
        return (Page(EMAIL, confirmed, self.show, Act(self.send), title=title, under=SECURITY),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """The address, and the form for another one."""
        return self._form(request)

    async def send(self, request: SignedInRequest) -> Outcome:
        """Send a link to the new address, or to the current one."""
        if not self.change.outbox.is_on:
            return self._form(request)
        user, now = request.user, request.now
        if request.form.get("verify") is not None:
            if user.email_verified_at is not None:
                return SeeOther(EMAIL)
            wait = await self.change.ask_to_verify(user, now)
            return self._form(request, wait=wait, sent_to="" if wait else user.email)
        typed = (request.form.get("email") or "").strip()
        done = await self.change.ask(request.signed_in, typed, now)
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
            csrf=request.csrf,
            address_now=user.email,
            verified=user.email_verified_at is not None,
            sends_mail=self.change.outbox.is_on,
            typed=typed[:_LONGEST],
            fault=fault,
            wait=wait,
            sent_to=sent_to,
        )
        status = TOO_MANY if wait else BAD_REQUEST if fault else 200
        return Show(context, status, (("retry-after", str(wait)),) if wait else ())


@dataclass(frozen=True, slots=True)
class EmailLinkEndpoint:
    """The page of one kind of link."""

    browsers: Browsers
    renderer: Renderer
    deed: EmailChange
    kind: VoucherKind

    async def look(self, request: Request) -> Response:
        """What it would do: nothing changes before its button is pressed."""
        link = link_in(request)
        change = await self.deed.look(self.kind, link, request.at)
        if change is None:
            return self._dead(request)
        seen = shown(self.browsers, request, PURPOSE, self.kind)
        page = EmailLinkPage(
            action=_PATHS[self.kind],
            csrf=seen.csrf,
            link=link,
            what=_WORDS[self.kind],
            username=change.user.username,
            email=change.email,
        )
        return self.renderer.page(request, page, headers=seen.headers)

    async def act(self, request: Request) -> Response:
        """Do it."""
        form = read(self.browsers, request, PURPOSE, self.kind)
        link, now = form.get("link") or "", request.at
        if self.kind is VoucherKind.EMAIL_UNDO:
            reset = await self.deed.undo(link, now)
            if reset is None:
                return self._dead(request)
            # Whoever has the link in the letter may have this one as well.
            return see_other(f"{RESET}?link={reset.reveal()}", *self.browsers.cookies.end())
        does = self.deed.verify if self.kind is VoucherKind.EMAIL_VERIFY else self.deed.confirm
        change = await does(link, now)
        if change is None:
            return self._dead(request)
        return self.renderer.page(request, EmailDonePage(change.email, HOME))

    def _dead(self, request: Request) -> Response:
        undo = self.kind is VoucherKind.EMAIL_UNDO
        page = DeadLinkPage(Matter(self.kind.value), HOME if undo else EMAIL)
        return self.renderer.page(request, page, GONE)


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
