"""/account/forgotten and /account/reset: choose a new password by an emailed link."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.actions.account.password_change import NewPasswordFault
from valetkey.authorization.actions.account.password_reset import PasswordReset
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.email.links import FORGOTTEN, RESET
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.language_choice import language_of
from valetkey.authorization.site.emailed_link.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    CheckEmailPage,
    DeadLinkPage,
    Matter,
    link_in,
    read,
    shown,
)
from valetkey.authorization.site.mailbox.mailbox import mailbox_of
from valetkey.authorization.site.presentation import Renderer
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class ForgottenPage:
    """Ask for a user name or an address. Posts `csrf` and `name`."""

    template: ClassVar[str] = "password_reset/forgotten.html"

    action: str
    csrf: str
    sign_in_url: str
    #: Whether emails can be sent at all.
    sends_mail: bool
    name: str = ""
    empty: bool = False
    wait: int = 0


@dataclass(frozen=True, slots=True)
class ResetPage:
    """Ask for another password. Posts `csrf`, `link` and `new`."""

    template: ClassVar[str] = "password_reset/reset.html"
    scripts: ClassVar[tuple[str, ...]] = ("strength.js",)

    action: str
    csrf: str
    link: str
    #: For the browser's list of passwords, and so that people see whose it is.
    username: str
    shortest: int
    #: What is wrong with the password; "" for nothing.
    fault: str = ""


@dataclass(frozen=True, slots=True)
class ResetDonePage:
    """The password is another one now."""

    template: ClassVar[str] = "password_reset/done.html"

    sign_in_url: str


PURPOSE = "recovery"
"""The purpose of the forms' token."""

_LONGEST = 320


@dataclass(frozen=True, slots=True)
class RecoveryEndpoint:
    """The form that asks for a link, and the page behind the link."""

    browsers: Browsers
    renderer: Renderer
    deed: PasswordReset

    async def get(self, request: Request) -> Response:
        """Show the form."""
        return self._ask(request, "")

    async def post(self, request: Request) -> Response:
        """Send a link; the answer is the same whether or not there is such an account.

        Nothing but `name` is read: an email goes to the address of the account and nowhere else.
        """
        form = read(self.browsers, request, PURPOSE)
        name = (form.get("name") or "").strip()
        if not name or not self.deed.outbox.is_on:
            return self._ask(request, name, empty=not name)
        language = language_of(request, None, self.renderer.brands.current.languages).tag
        wait = await self.deed.ask(name, request.address, language, request.at)
        if wait:
            return self._ask(request, name, wait=wait)
        box = mailbox_of(self.deed.outbox)
        page = CheckEmailPage(Matter.PASSWORD, name[:_LONGEST], FORGOTTEN, mailbox_url=box)
        return self.renderer.page(request, page)

    async def look(self, request: Request) -> Response:
        """The page of the link: it changes nothing before its form is sent."""
        link = link_in(request)
        user = await self.deed.look(link, request.at)
        return self._dead(request) if user is None else self._form(request, link, user.username)

    async def choose(self, request: Request) -> Response:
        """Set the new password."""
        form = read(self.browsers, request, PURPOSE, opaque=("new",))
        link, new = form.get("link") or "", form.get("new") or ""
        user = await self.deed.look(link, request.at)
        if user is None:
            return self._dead(request)
        done = await self.deed.choose(link, new, new, request.at)
        if done is None:
            return self._dead(request)
        if isinstance(done, NewPasswordFault):
            return self._form(request, link, user.username, done.value)
        return self.renderer.page(request, ResetDonePage(SIGN_IN))

    def _ask(self, request: Request, name: str, *, empty: bool = False, wait: int = 0) -> Response:
        seen = shown(self.browsers, request, PURPOSE)
        page = ForgottenPage(
            action=FORGOTTEN,
            csrf=seen.csrf,
            sign_in_url=SIGN_IN,
            sends_mail=self.deed.outbox.is_on,
            name=name[:_LONGEST],
            empty=empty,
            wait=wait,
        )
        status = TOO_MANY if wait else BAD_REQUEST if empty else 200
        return self.renderer.page(request, page, status, headers=seen.waits(wait))

    def _form(self, request: Request, link: str, username: str, fault: str = "") -> Response:
        seen = shown(self.browsers, request, PURPOSE)
        page = ResetPage(RESET, seen.csrf, link, username, SHORTEST, fault)
        status = BAD_REQUEST if fault else 200
        return self.renderer.page(request, page, status, headers=seen.headers)

    def _dead(self, request: Request) -> Response:
        return self.renderer.page(request, DeadLinkPage(Matter.PASSWORD, FORGOTTEN), GONE)
