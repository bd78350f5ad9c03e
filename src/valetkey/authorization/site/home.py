"""GET /: whose server this is; for who is signed in, the front page of their account."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.email.links import SIGN_UP
from valetkey.authorization.layout.addresses import HOME, SIGN_IN
from valetkey.authorization.layout.navigation import Navigation
from valetkey.authorization.site.account.overview import Overview
from valetkey.authorization.site.site import Site
from valetkey.config.sections.accounts import SignUp
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class HomePage:
    """Name the server, and offer to sign in.

    `sign_up_url` is empty where nobody makes an account of their own.
    """

    template: ClassVar[str] = "home.html"

    sign_in_url: str
    sign_up_url: str = ""


@dataclass(frozen=True, slots=True)
class HomeEndpoint:
    """The page at the root."""

    site: Site
    #: The navigation of the account area.
    navigation: Navigation

    async def lead(self, request: Request) -> Response:
        """Redirect to the page from another address."""
        return self.site.goes_to(HOME)

    async def get(self, request: Request) -> Response:
        """The page."""
        signed_in = await self.site.signed_in(request)
        if signed_in is None:
            open_to_all = self.site.accounts.sign_up is SignUp.OPEN
            page = HomePage(SIGN_IN, SIGN_UP if open_to_all else "")
            return self.site.page(request, page)
        return await Overview(self.site, self.navigation).show(request, signed_in)
