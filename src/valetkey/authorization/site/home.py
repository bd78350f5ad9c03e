"""GET /: the start page; for signed-in users, the overview of their account."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.email.notices import SIGN_UP
from valetkey.authorization.layout.addresses import HOME, REQUIRED_FACTOR, SIGN_IN
from valetkey.authorization.model.user import User
from valetkey.authorization.site.account.overview import AccountOverview
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    VisitorRequest,
    anyone,
)
from valetkey.authorization.site.sign_out import csrf_to_sign_out
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Interrupt, see_other


class HomePage(Struct, frozen=True):
    """The start page: names the server and links to sign-in.

    `sign_up_url` is empty if users cannot create accounts.
    """

    template: ClassVar[str] = "home.html"
    title: ClassVar[str] = translatable("Your account")

    sign_in_url: str
    sign_up_url: str = ""


class HomeRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a visitor who may be signed in."""

    signed_in: SignedIn | None

    @property
    def viewer(self) -> User | None:
        """The signed-in user, if there is one."""
        return None if self.signed_in is None else self.signed_in.user


class Home(Struct, frozen=True):
    """Show the page at the root."""

    sign_up: SignUpMode
    overview: AccountOverview

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature, and a second address that redirects to it."""
        return (Page(HOME, _visitor, self.show), Page("/account", anyone, self.redirect))

    async def redirect(self, request: VisitorRequest) -> Outcome:
        """Redirect from the second address to the page."""
        return SeeOther(HOME)

    async def show(self, request: HomeRequest) -> Outcome:
        """Show the overview of the account, or the start page with the server's name."""
        if request.signed_in is not None:
            return await self.overview.show(request.signed_in, request.now)
        return Show(HomePage(SIGN_IN, SIGN_UP if self.sign_up is SignUpMode.OPEN else ""))


async def _visitor(visit: PageVisit) -> HomeRequest:
    request, browsers = visit.request, visit.browsers
    signed_in = await browsers.signed_in(request)
    if signed_in is None:
        return HomeRequest(request, signed_in=None)
    if signed_in.must_add_factor:
        raise Interrupt(see_other(REQUIRED_FACTOR))
    browser, headers = browsers.browser(request)
    csrf = csrf_to_sign_out(browsers, browser, signed_in)
    return HomeRequest(request, browser, csrf, headers, signed_in=signed_in)
