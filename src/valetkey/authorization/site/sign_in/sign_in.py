"""GET and POST /oauth/sign-in: sign in with a password or a passkey."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from valetkey.authorization.authentication.authenticate import PasswordSignIn
from valetkey.authorization.authentication.factors.proof import Unproved
from valetkey.authorization.email.links import FORGOTTEN, SIGN_UP
from valetkey.authorization.endpoints.authorize.pending import decides_again
from valetkey.authorization.layout.addresses import HOME, SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.event.sessions import SignInFailed
from valetkey.authorization.protocol.claims import Method
from valetkey.authorization.site.presentation import Renderer, asking_app
from valetkey.authorization.site.sign_in.flow import (
    Admitted,
    ReturnTarget,
    SecondFactorNeeded,
    SignInFlow,
    return_target_of,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.accounts import SignUp
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.web.exchange import Pairs, Request, Response, see_other
from valetkey.web.form import read_form


@dataclass(frozen=True, slots=True)
class ProviderButton:
    """What it is called, and where it leads: an address of this server."""

    id: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class SignInPage:
    """Ask for a user name and a password; `failed` and `wait` say how the last attempt went.

    Posts `username`, `password` and `csrf`, or `credential` and `csrf` with a passkey, or
    `decision=deny` when the visitor turns back.
    """

    template: ClassVar[str] = "sign_in/sign_in.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    #: None when nobody sent the visitor here: then there is nobody to go back to.
    app: AskingApp | None = None
    #: Kept from the last attempt, or suggested by the app.
    username: str = ""
    #: For who forgot their password; "" where nothing can be done here.
    forgotten_url: str = ""
    #: For who has no account; "" where nobody makes one here.
    sign_up_url: str = ""
    failed: bool = False
    #: Seconds until another attempt is looked at; 0 when none has to be waited for.
    wait: int = 0
    #: What the browser needs to use a passkey, as JSON; "" where there can be none.
    passkey: str = ""
    passkey_failed: bool = False
    #: Other servers at which the visitor may sign in.
    providers: tuple[ProviderButton, ...] = ()


PURPOSE = "sign-in"
"""The purpose of the form's token."""

_OPAQUE = ("username", "password", "credential")
_LONGEST_NAME = 320
_UNAUTHORIZED = 401
_TOO_MANY = 429


Buttons = Callable[[str, str, str, str], tuple[ProviderButton, ...]]
"""Links to other servers, for a browser, what its page is about, and where it was going: a sealed
request, or a page of ours."""


def no_buttons(browser: str, about: str, sealed: str, to: str) -> tuple[ProviderButton, ...]:
    """Return no links: there are no upstream providers."""
    return ()


@dataclass(frozen=True, slots=True)
class SignInEndpoint:
    """The sign-in page, for the request of an app or by itself."""

    flow: SignInFlow
    renderer: Renderer
    password: PasswordSignIn
    sign_up: SignUp
    buttons: Buttons = no_buttons

    async def get(self, request: Request) -> Response:
        """Show the page. A visitor who is signed in, without a request of an app, is redirected."""
        target = await return_target_of(self.flow.server, request)
        if isinstance(target, Response):
            return target
        if target.pending is not None:
            browser = self.flow.server.cookies.browser(request)
            return self._page(request, browser, target, target.pending.asked.login_hint)
        if await self.flow.server.signed_in(request) is not None:
            return see_other(target.to or HOME)
        browser, headers = self.flow.server.browser(request)
        return self._page(request, browser, target, "", headers=headers)

    async def post(self, request: Request) -> Response:
        """Sign in and redirect, or show the page again with an error."""
        self.flow.server.check_origin(request)
        form = read_form(request.body, opaque=_OPAQUE)
        target = await return_target_of(self.flow.server, request)
        if isinstance(target, Response):
            return target
        browser = self.flow.server.cookies.browser(request)
        self.flow.server.check_form(request, form, browser, PURPOSE, target.about)
        if target.pending is not None and form.get("decision") == "deny":
            denied = replace(target.pending.interaction, denied=True)
            return see_other(decides_again(self.flow.server, denied))
        if "credential" in form:
            return await self._by_passkey(request, browser, target, form.get("credential") or "")
        username = form.get("username") or ""
        fresh, by = self.flow.fresh(request), (Method.PASSWORD.value,)
        met: list[Admitted | SecondFactorNeeded] = []
        user = await self.password.authenticate(
            username,
            form.get("password") or "",
            request.address,
            request.at,
            lambda tx, user: met.append(self.flow.admit(tx, request, target, fresh, user, by)),
            self.flow.familiar(request).mark,
        )
        if isinstance(user, Refusal):
            return self._page(request, browser, target, username[:_LONGEST_NAME], user)
        # The transaction may have run twice; the last run is the one that counts.
        last = met[-1]
        if isinstance(last, SecondFactorNeeded):
            return self.flow.asks_for_more(request, target, last, by)
        return self.flow.goes_on(request, target, fresh, last)

    async def _by_passkey(
        self, request: Request, browser: str, target: ReturnTarget, credential: str
    ) -> Response:
        now = request.at
        bound = self.flow.server.cookies.browser_print(browser) or ""
        looked = await self.flow.factors.look(
            self.flow.server.store, credential, PURPOSE, bound, now
        )
        if looked is None:
            return self._page(request, browser, target, "", _NO_PASSKEY)
        found, fresh = looked, self.flow.fresh(request)

        def work(tx: Transaction) -> Admitted | None:
            user = tx.users.find_to_change(found.passkey.uid)
            if user is None or user.disabled_at is not None:
                return None
            proof = self.flow.factors.prove_by_passkey(tx, found, now)
            if isinstance(proof, Unproved):
                tx.events.add(SignInFailed(user.uid, "passkey"), now)
                return None
            return self.flow.enter(tx, request, fresh, user, proof.methods)

        entered = await self.flow.server.store.write(work)
        if entered is None:
            return self._page(request, browser, target, "", _NO_PASSKEY)
        return self.flow.goes_on(request, target, fresh, entered)

    def _page(
        self,
        request: Request,
        browser: str,
        target: ReturnTarget,
        username: str,
        refusal: Refusal | None = None,
        headers: Pairs = (),
    ) -> Response:
        pending = target.pending
        app = (
            None if pending is None else asking_app(pending.client, pending.asked, signed_in=False)
        )
        passkeys, bound = (
            self.flow.factors.passkeys,
            self.flow.server.cookies.browser_print(browser) or "",
        )
        wait = 0 if refusal is None else refusal.retry_after
        page = SignInPage(
            action=target.leads(SIGN_IN),
            csrf=self.flow.server.csrf(browser, PURPOSE, target.about),
            app=app,
            username=username,
            failed=refusal is not None and not wait and refusal is not _NO_PASSKEY,
            passkey_failed=refusal is _NO_PASSKEY,
            passkey=passkeys.ask(PURPOSE, bound, request.at) if passkeys.domain else "",
            wait=wait,
            forgotten_url=FORGOTTEN,
            sign_up_url=target.leads(SIGN_UP) if self.sign_up is SignUp.OPEN else "",
            providers=self.buttons(browser, target.about, target.sealed, target.to),
        )
        status = 200 if refusal is None else _TOO_MANY if wait else _UNAUTHORIZED
        if wait:
            headers = (*headers, ("retry-after", str(wait)))
        returns_to = "" if pending is None else pending.asked.returns.redirect_uri
        return self.renderer.page(request, page, status, returns_to=returns_to, headers=headers)


_NO_PASSKEY = Refusal(
    ErrorCode.INVALID_GRANT,
    "this passkey opens no account here, or the page was open for too long",
    "passkey.wrong",
)
