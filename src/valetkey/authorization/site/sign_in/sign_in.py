"""/oauth/sign-in: sign in with a password or a passkey."""

from collections.abc import Callable
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.factors import VerificationFailed
from valetkey.authorization.authentication.password import PasswordSignIn
from valetkey.authorization.email.notices import FORGOTTEN, SIGN_UP
from valetkey.authorization.layout.addresses import HOME, SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.event.accounts import SignInFailed
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.protocol.claims import Amr
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    retry_after,
)
from valetkey.authorization.site.sign_in.flow import (
    SecondFactorNeeded,
    SignInComplete,
    SignInFlow,
    TargetRequest,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.refusal import ErrorCode, Refusal
from valetkey.kernel.text import translatable


class SignInLink(Struct, frozen=True):
    """A link to another way to sign in: its name, and this server's URL that begins it."""

    id: str
    name: str
    url: str


class SignInPage(Struct, frozen=True):
    """The sign-in form; `failed` and `wait` describe the previous attempt.

    Posts `username`, `password` and `csrf`, or `credential` and `csrf` with a passkey, or
    `decision=deny` to cancel.
    """

    template: ClassVar[str] = "sign_in/sign_in.html"
    title: ClassVar[str] = translatable("Sign in")
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js", "show.js")

    action: str
    #: None if no app sent the visitor here: then there is none to return to.
    app: AskingApp | None = None
    #: Kept from the last attempt, or suggested by the app.
    username: str = ""
    #: For who forgot their password; "" where nothing can be done here.
    forgotten_url: str = ""
    #: For users without an account; "" where sign-up is disabled.
    sign_up_url: str = ""
    failed: bool = False
    #: Seconds until another attempt is looked at; 0 when none has to be waited for.
    wait: int = 0
    #: The options for using a passkey, as JSON; "" if passkeys cannot be used.
    passkey: str = ""
    passkey_failed: bool = False
    #: Other ways to sign in.
    links: tuple[SignInLink, ...] = ()


PURPOSE = "sign-in"
"""The purpose of the form's CSRF token."""

_OPAQUE = ("username", "password", "credential")
_LONGEST_NAME = 320
_UNAUTHORIZED = 401
_TOO_MANY = 429


SignInLinks = Callable[[str, str, str, str], tuple[SignInLink, ...]]
"""Links of a feature, for a browser, what its page is about, and where it was going: a sealed
request, or a page of this server."""


class SignInPages(Struct, frozen=True):
    """Sign in with a password or a passkey, with or without the request of an app."""

    flow: SignInFlow
    password: PasswordSignIn
    sign_up: SignUpMode
    links: tuple[SignInLinks, ...] = ()

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        act = Act(self.sign_in, opaque=_OPAQUE)
        return (Page(SIGN_IN, self.flow.visitor(PURPOSE), self.show, act, step=True),)

    async def show(self, request: TargetRequest) -> Outcome:
        """Show the sign-in page. A signed-in visitor without an app's request is redirected."""
        target = request.target
        if target.pending is not None:
            return self._page(request, target.pending.authorization.login_hint)
        if await self.flow.server.signed_in(request.request) is not None:
            return SeeOther(target.to or HOME)
        return self._page(request, "")

    async def sign_in(self, request: TargetRequest) -> Outcome:
        """Sign in and redirect, or show the page again with an error."""
        flow, target, form = self.flow, request.target, request.form
        if (back := flow.back_to_app(request)) is not None:
            return back
        if "credential" in form:
            return await self._by_passkey(request, form.get("credential") or "")
        username, came = form.get("username") or "", request.request
        fresh, by = flow.fresh(came), (Amr.PASSWORD.value,)
        met: list[SignInComplete | SecondFactorNeeded] = []
        user = await self.password.authenticate(
            username,
            form.get("password") or "",
            came.address,
            came.at,
            lambda tx, user: met.append(flow.admit(tx, came, target, fresh, user, by)),
            flow.server.known_browser(came).mark,
        )
        if isinstance(user, Refusal):
            return self._page(request, username[:_LONGEST_NAME], user)
        # The transaction may have run twice; the result of the last run counts.
        last = met[-1]
        if isinstance(last, SecondFactorNeeded):
            return flow.redirect_to_second_factor(came, target, last, by)
        return flow.continue_to(came, target, fresh, last)

    async def _by_passkey(self, request: TargetRequest, credential: str) -> Outcome:
        flow, came, now = self.flow, request.request, request.now
        store = flow.server.store
        bound = flow.server.cookies.browser_fingerprint(request.browser) or ""
        looked = await flow.factors.find_passkey(store, credential, PURPOSE, bound, now)
        if looked is None:
            return self._page(request, "", _NO_PASSKEY)
        assertion, fresh = looked, flow.fresh(came)

        def verify_passkey(tx: Transaction) -> SignInComplete | None:
            user = tx.users.find_to_change(assertion.passkey.uid)
            if user is None:
                return None
            if user.disabled_at is not None:
                tx.events.add(SignInFailed(user.uid, "passkey", "account_disabled"), now)
                return None
            proof = flow.factors.prove_by_passkey(tx, assertion, now)
            if isinstance(proof, VerificationFailed):
                tx.events.add(SignInFailed(user.uid, "passkey", "passkey_refused"), now)
                return None
            return flow.enter(tx, came, fresh, user, proof.methods)

        entered = await store.write(verify_passkey, done_by=USUAL_ACTOR)
        if entered is None:
            return self._page(request, "", _NO_PASSKEY)
        return flow.continue_to(came, request.target, fresh, entered)

    def _page(self, request: TargetRequest, username: str, refusal: Refusal | None = None) -> Show:
        target, browser = request.target, request.browser
        passkeys = self.flow.factors.passkeys
        bound = self.flow.server.cookies.browser_fingerprint(browser) or ""
        wait = 0 if refusal is None else refusal.retry_after
        page = SignInPage(
            action=target.address_of(SIGN_IN),
            app=request.app,
            username=username,
            failed=refusal is not None and not wait and refusal is not _NO_PASSKEY,
            passkey_failed=refusal is _NO_PASSKEY,
            passkey=passkeys.authentication_options(PURPOSE, bound, request.now)
            if passkeys.domain
            else "",
            wait=wait,
            forgotten_url=FORGOTTEN,
            sign_up_url=target.address_of(SIGN_UP) if self.sign_up is SignUpMode.OPEN else "",
            links=tuple(
                link
                for links in self.links
                for link in links(browser, target.about, target.sealed, target.to)
            ),
        )
        status = 200 if refusal is None else _TOO_MANY if wait else _UNAUTHORIZED
        return Show(page, status, retry_after(wait), request.returns_to)


_NO_PASSKEY = Refusal(
    ErrorCode.INVALID_GRANT,
    "this passkey does not belong to an account, or the page was open for too long",
    "passkey.wrong",
)
