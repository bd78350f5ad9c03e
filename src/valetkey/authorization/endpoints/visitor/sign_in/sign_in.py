"""GET and POST /oauth/sign-in: who is it? A name and a password."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import quote

from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    decides_again,
    open_pending,
    sealed_in,
)
from valetkey.authorization.endpoints.visitor.sign_in.own_place import own_place
from valetkey.authorization.endpoints.visitor.site import HOME, SIGN_IN, Site, asking_app
from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.visitor.federation.button import ProviderButton
from valetkey.authorization.pages.visitor.sign_in.sign_in import SignInPage
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.sign_in.authenticate import PasswordSignIn
from valetkey.authorization.sign_in.session import NewSession, sign_in
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Pairs, Request, Response
from valetkey.web.form import read_form, read_query

PURPOSE = "sign-in"
"""The purpose of the form's token."""

_OPAQUE = ("username", "password")
_LONGEST_NAME = 320
_UNAUTHORIZED = 401
_TOO_MANY = 429


Buttons = Callable[[str, str, str, str], tuple[ProviderButton, ...]]
"""Links to other servers, for a browser, what its page is about, and where it was going: a sealed
request, or a page of ours."""


def no_buttons(browser: str, about: str, sealed: str, to: str) -> tuple[ProviderButton, ...]:
    """Where people sign in here alone."""
    return ()


@dataclass(frozen=True, slots=True)
class SignInEndpoint:
    """The sign-in page, on the way from an app or by itself."""

    site: Site
    password: PasswordSignIn
    buttons: Buttons = no_buttons

    async def get(self, request: Request) -> Response:
        """The page. Whoever is signed in and comes by themselves is sent home."""
        if sealed_in(request):
            pending = await open_pending(self.site, request)
            if isinstance(pending, Response):
                return pending
            browser = self.site.cookies.browser(request)
            return self._page(request, browser, pending, pending.asked.login_hint)
        if await self.site.signed_in(request) is not None:
            return self.site.goes_to(_to(request) or HOME)
        browser, headers = self.site.browser(request)
        return self._page(request, browser, None, "", headers=headers)

    async def post(self, request: Request) -> Response:
        """Sign in and go on, or show what went wrong beside the form."""
        self.site.check_origin(request)
        form = read_form(request.body, opaque=_OPAQUE)
        pending = None
        if sealed_in(request):
            found = await open_pending(self.site, request)
            if isinstance(found, Response):
                return found
            pending = found
        browser = self.site.cookies.browser(request)
        self.site.check_form(request, form, browser, PURPOSE, _about(pending))
        if pending is not None and form.get("decision") == "deny":
            denied = replace(pending.interaction, denied=True)
            return self.site.goes_to(decides_again(self.site, denied))
        username = form.get("username") or ""
        new = NewSession.fresh(request.headers.get("user-agent") or "", self.site.random)
        begun: list[str] = []
        user = await self.password.authenticate(
            username,
            form.get("password") or "",
            request.address,
            request.at,
            lambda tx, user: begun.append(self._begin(tx, request, new, user)),
        )
        if isinstance(user, Refusal):
            return self._page(request, browser, pending, username[:_LONGEST_NAME], user)
        # The transaction may have run twice; the last run is the one that counts.
        session_id = begun[-1]
        cookies = self.site.cookies.begin(new.cookie, session_id)
        if pending is None:
            return self.site.goes_to(_to(request) or HOME, *cookies)
        signed_in = replace(pending.interaction, signed_in=session_id, decided="", allowed=())
        return self.site.goes_to(decides_again(self.site, signed_in), *cookies)

    def _begin(self, tx: Transaction, request: Request, new: NewSession, user: User) -> str:
        cookie, key = self.site.cookies.session(request), self.site.keyring.fingerprint_key
        sessions, now = self.site.sessions, request.at
        return sign_in(tx, cookie, new, user, key, sessions, now, methods=(Method.PASSWORD,))

    def _page(
        self,
        request: Request,
        browser: str,
        pending: Pending | None,
        username: str,
        refusal: Refusal | None = None,
        headers: Pairs = (),
    ) -> Response:
        app = None if pending is None else asking_app(pending.client, pending.asked)
        sealed = sealed_in(request)
        wait = 0 if refusal is None else refusal.retry_after
        page = SignInPage(
            action=_action(sealed, _to(request)),
            csrf=self.site.csrf(browser, PURPOSE, _about(pending)),
            app=app,
            username=username,
            failed=refusal is not None and refusal.code is not ErrorCode.SLOW_DOWN,
            wait=wait,
            providers=self.buttons(browser, _about(pending), sealed, _to(request)),
        )
        status = 200 if refusal is None else _TOO_MANY if wait else _UNAUTHORIZED
        if wait:
            headers = (*headers, ("retry-after", str(wait)))
        returns_to = "" if pending is None else pending.asked.returns.redirect_uri
        return self.site.page(
            request, page, status, app=app, returns_to=returns_to, headers=headers
        )


def _to(request: Request) -> str:
    return own_place(read_query(request.query).get("to"))


def _action(sealed: str, to: str) -> str:
    if sealed:
        return f"{SIGN_IN}?interaction={quote(sealed, safe='')}"
    return f"{SIGN_IN}?to={to}" if to else SIGN_IN


def _about(pending: Pending | None) -> str:
    return "" if pending is None else pending.interaction.id
