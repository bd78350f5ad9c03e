"""GET /: whose server this is, and who is signed in."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.visitor.sign_out import csrf_to_sign_out
from valetkey.authorization.endpoints.visitor.site import SIGN_IN, SIGN_OUT, Site, shown_person
from valetkey.authorization.pages.visitor.home import HomePage
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class HomeEndpoint:
    """The page at the root."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page."""
        signed_in = await self.site.signed_in(request)
        if signed_in is None:
            return self.site.page(HomePage(SIGN_OUT, "", sign_in_url=SIGN_IN))
        browser, headers = self.site.browser(request)
        csrf = csrf_to_sign_out(self.site, browser, signed_in)
        page = HomePage(SIGN_OUT, csrf, shown_person(signed_in))
        return self.site.page(page, headers=headers)
