"""/account/forgotten and /account/reset: choose a new password by an emailed link."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.passwords import NewPasswordFault, PasswordReset
from valetkey.authorization.authentication.password import SHORTEST
from valetkey.authorization.email.notices import FORGOTTEN, RESET
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.assets import CurrentBrand
from valetkey.authorization.layout.viewer import language_of
from valetkey.authorization.model.user import User
from valetkey.authorization.site.emailed_link import (
    BAD_REQUEST,
    GONE,
    TOO_MANY,
    CheckEmailPage,
    InvalidLinkPage,
    LinkSubject,
    Resend,
    link_in,
)
from valetkey.authorization.site.mailbox import mailbox_of
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    Show,
    VisitorRequest,
    retry_after,
    visitor,
)
from valetkey.kernel.text import translatable


class ResetRequestPage(Struct, frozen=True):
    """Ask for a username or an address. Posts `csrf` and `name`."""

    template: ClassVar[str] = "password_reset/forgotten.html"
    title: ClassVar[str] = translatable("Forgot your password?")

    action: str
    sign_in_url: str
    #: Whether emails can be sent at all.
    sends_mail: bool
    name: str = ""
    empty: bool = False
    wait: int = 0


class ResetPage(Struct, frozen=True):
    """Ask for another password, or for the first one. Posts `csrf`, `link` and `new`."""

    template: ClassVar[str] = "password_reset/reset.html"
    scripts: ClassVar[tuple[str, ...]] = ("show.js", "strength.js")

    action: str
    link: str
    #: For the browser's list of passwords, and so that people see whose it is.
    username: str
    shortest: int
    #: The fault of the new password; "" for none.
    fault: str = ""
    is_first: bool = False

    @property
    def title(self) -> str:
        """Return the heading."""
        if self.is_first:
            return translatable("Set your password")
        return translatable("Choose a new password")


class ResetDonePage(Struct, frozen=True):
    """Say that the password was changed, or that the first one was set."""

    template: ClassVar[str] = "password_reset/done.html"

    sign_in_url: str
    is_first: bool = False

    @property
    def title(self) -> str:
        """Return the heading."""
        if self.is_first:
            return translatable("Your password is set")
        return translatable("Your password was changed")


PURPOSE = "recovery"
"""The purpose of the forms' CSRF tokens."""

_LONGEST = 320


class ResetPassword(Struct, frozen=True):
    """Ask for a link, and choose a new password on the page behind it."""

    reset: PasswordReset
    brands: CurrentBrand

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        met = visitor(PURPOSE)
        return (
            Page(FORGOTTEN, met, self.show, Act(self.send)),
            Page(RESET, met, self.show_link, Act(self.choose, opaque=("new",))),
        )

    async def show(self, request: VisitorRequest) -> Outcome:
        """Show the form that asks for a username or an address."""
        return self._ask(request, "")

    async def send(self, request: VisitorRequest) -> Outcome:
        """Send a link; the response is the same whether or not there is such an account.

        Nothing but `name` is read: an email goes to the address of the account and nowhere else.
        """
        outbox, came = self.reset.outbox, request.request
        name = (request.form.get("name") or "").strip()
        if not name or not outbox.is_on:
            return self._ask(request, name, empty=not name)
        language = language_of(came, None, self.brands.current.languages).tag
        wait = await self.reset.request_reset(name, came.address, language, request.now)
        if wait:
            return self._ask(request, name, wait=wait)
        box = mailbox_of(outbox)
        sent_again = request.form.get("again") is not None
        resend = Resend(FORGOTTEN, "name", name[:_LONGEST], done=sent_again)
        return Show(
            CheckEmailPage(
                LinkSubject.PASSWORD, name[:_LONGEST], FORGOTTEN, resend, mailbox_url=box
            )
        )

    async def show_link(self, request: VisitorRequest) -> Outcome:
        """Show the page of the link; nothing changes before its form is sent."""
        link = link_in(request)
        link_user = await self.reset.find_user(link, request.now)
        return _DEAD if link_user is None else _form(link, link_user)

    async def choose(self, request: VisitorRequest) -> Outcome:
        """Set the new password."""
        link, new = request.form.get("link") or "", request.form.get("new") or ""
        link_user = await self.reset.find_user(link, request.now)
        if link_user is None:
            return _DEAD
        done = await self.reset.choose(link, new, new, request.now)
        if done is None:
            return _DEAD
        if isinstance(done, NewPasswordFault):
            return _form(link, link_user, done.value)
        return Show(ResetDonePage(SIGN_IN, is_first=link_user[1]))

    def _ask(
        self, request: VisitorRequest, name: str, *, empty: bool = False, wait: int = 0
    ) -> Show:
        page = ResetRequestPage(
            action=FORGOTTEN,
            sign_in_url=SIGN_IN,
            sends_mail=self.reset.outbox.is_on,
            name=name[:_LONGEST],
            empty=empty,
            wait=wait,
        )
        status = TOO_MANY if wait else BAD_REQUEST if empty else 200
        return Show(page, status, retry_after(wait))


_DEAD = Show(InvalidLinkPage(LinkSubject.PASSWORD, FORGOTTEN), GONE)


def _form(link: str, link_user: tuple[User, bool], fault: str = "") -> Show:
    user, is_first = link_user
    page = ResetPage(RESET, link, user.username, SHORTEST, fault, is_first)
    return Show(page, BAD_REQUEST if fault else 200)
