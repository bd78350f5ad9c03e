"""GET /: whose server this is; for who is signed in, the front page of their account."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.email.links import SIGN_UP
from valetkey.authorization.layout.addresses import HOME, SIGN_IN
from valetkey.authorization.site.account.overview import Overview
from valetkey.authorization.site.presentation import Renderer
from valetkey.config.sections.accounts import SignUp
from valetkey.web.exchange import Request, Response, see_other


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

    browsers: Browsers
    renderer: Renderer
    sign_up: SignUp
    overview: Overview

    async def lead(self, request: Request) -> Response:
        """Redirect to the page from another address."""
        return see_other(HOME)

    async def get(self, request: Request) -> Response:
        """The page."""
        signed_in = await self.browsers.signed_in(request)
        if signed_in is None:
            open_to_all = self.sign_up is SignUp.OPEN
            page = HomePage(SIGN_IN, SIGN_UP if open_to_all else "")
            return self.renderer.page(request, page)
        return await self.overview.show(request, signed_in)
