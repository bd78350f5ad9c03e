"""GET and POST /oauth/sign-out: ask first, so that no link can do it; then end the session."""

from dataclasses import dataclass

from valetkey.authorization.endpoints.visitor.site import SIGN_OUT, Site, shown_person
from valetkey.authorization.pages.visitor.sign_out import SignedOutPage, SignOutPage
from valetkey.authorization.sign_in.session import end_session
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_form

PURPOSE = "sign-out"
"""The purpose of the form's token."""


@dataclass(frozen=True, slots=True)
class SignOutEndpoint:
    """The way out."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The question; or, where nobody is signed in, that it is done."""
        signed_in = await self.site.signed_in(request)
        if signed_in is None:
            return self.site.page(SignedOutPage())
        browser, headers = self.site.browser(request)
        page = SignOutPage(
            action=SIGN_OUT,
            csrf=self.site.csrf(browser, PURPOSE, signed_in.session.id),
            person=shown_person(signed_in),
        )
        return self.site.page(page, headers=headers)

    async def post(self, request: Request) -> Response:
        """End the session, the grants that were to end with it, and the cookie."""
        self.site.check_origin(request)
        form = read_form(request.body)
        signed_in = await self.site.signed_in(request)
        if signed_in is not None:
            session = signed_in.session
            browser = self.site.cookies.browser(request)
            self.site.check_form(request, form, browser, PURPOSE, session.id)
            await self.site.store.write(
                lambda tx: end_session(tx, session, request.at, "signed_out")
            )
        return self.site.goes_to(SIGN_OUT, *self.site.cookies.end())
