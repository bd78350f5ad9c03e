"""GET and POST /oauth/second-factor: ask for the second factor after the first."""

from dataclasses import dataclass, replace
from typing import ClassVar

from valetkey.authorization.authentication.factors.proof import Looked, Shown, Unproved
from valetkey.authorization.endpoints.authorize.pending import decides_again
from valetkey.authorization.layout.addresses import SECOND_FACTOR, SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.account.factors import Passkey
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.site.presentation import Renderer, asking_app
from valetkey.authorization.site.sign_in.flow import (
    Admitted,
    PreparedSignIn,
    ReturnTarget,
    SignInFlow,
    Step,
    return_target_of,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import Form, read_form


@dataclass(frozen=True, slots=True)
class SecondFactorPage:
    """Ask for a passkey, a code of an authenticator app, or a recovery code.

    Posts `csrf` and `credential`, `code` or `recovery`, and `remember` where it is ticked; or
    `decision=deny` when the visitor turns back.
    """

    template: ClassVar[str] = "sign_in/second_factor.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    #: Where to begin again, as somebody else.
    begins: str
    username: str
    app: AskingApp | None = None
    #: What the browser needs to use a passkey, as JSON; "" where the account has none.
    passkey: str = ""
    has_code: bool = False
    has_recovery: bool = False
    #: What was wrong: "passkey", "code" or "recovery"; "" for nothing.
    wrong: str = ""
    #: Seconds until another code is looked at.
    wait: int = 0
    #: Days in which this browser would not be asked again.
    days: int = 0


PURPOSE = "second-factor"
"""The purpose of the form's token, and of the question to a passkey."""

_OPAQUE = ("code", "recovery", "credential")
_UNAUTHORIZED = 401
_TOO_MANY = 429


@dataclass(frozen=True, slots=True)
class _Has:
    """The second factors of a user."""

    user: User
    passkeys: tuple[Passkey, ...]
    code: bool
    recovery: bool


@dataclass(frozen=True, slots=True)
class SecondFactorEndpoint:
    """The page of the second factor."""

    flow: SignInFlow
    renderer: Renderer

    async def get(self, request: Request) -> Response:
        """Show the page; without proof of the first factor, redirect to the sign-in page."""
        found = await self._find(request)
        if isinstance(found, Response):
            return found
        target, step, has = found
        return self._page(request, target, step, has)

    async def post(self, request: Request) -> Response:
        """Check the factor and sign in."""
        self.flow.server.check_origin(request)
        form = read_form(request.body, opaque=_OPAQUE)
        found = await self._find(request)
        if isinstance(found, Response):
            return found
        target, step, has = found
        browser = self.flow.server.cookies.browser(request)
        self.flow.server.check_form(request, form, browser, PURPOSE, target.about, str(step.uid))
        if target.pending is not None and form.get("decision") == "deny":
            denied = replace(target.pending.interaction, denied=True)
            dropped = self.flow.server.cookies.step.drop()
            return see_other(decides_again(self.flow.server, denied), dropped)
        return await self._judge(request, form, target, step, has)

    async def _judge(
        self, request: Request, form: Form, target: ReturnTarget, step: Step, has: _Has
    ) -> Response:
        now, uid = request.at, Uid(step.uid)
        shown = Shown(
            form.get("code") or "", form.get("recovery") or "", form.get("credential") or ""
        )
        looked: Looked | None = None
        if shown.credential:
            looked = await self.flow.factors.look(
                self.flow.server.store, shown.credential, PURPOSE, step.browser, now, uid
            )
        fresh = self.flow.fresh(request)
        familiar = self.flow.familiar(request).mark(uid)
        remembers = form.get("remember") == "yes"

        def work(tx: Transaction) -> Admitted | Unproved | None:
            user = self.flow.still(tx, step)
            if user is None:
                return None
            proof = self.flow.factors.prove(tx, user, shown, looked, familiar, "page", now)
            if isinstance(proof, Unproved):
                return proof
            if proof.left is not None:
                self.flow.notices.recovery_code_used(tx, user, proof.left, now)
            methods = tuple(dict.fromkeys((*step.methods, *proof.methods)))
            return self._let_in(tx, request, fresh, user, methods, remembers)

        met = await self.flow.server.store.write(work)
        if met is None:
            return self.flow.again(target)
        if isinstance(met, Unproved):
            wrong = "passkey" if shown.credential else "recovery" if shown.recovery else "code"
            return self._page(request, target, step, has, wrong, met.wait)
        return self.flow.goes_on(request, target, fresh, met)

    def _let_in(
        self,
        tx: Transaction,
        request: Request,
        fresh: PreparedSignIn,
        user: User,
        methods: tuple[str, ...],
        remembers: bool,
    ) -> Admitted:
        device = self.flow.remember(tx, request, fresh, user.uid) if remembers else None
        return self.flow.enter(tx, request, fresh, user, methods, device)

    async def _find(self, request: Request) -> tuple[ReturnTarget, Step, _Has] | Response:
        target = await return_target_of(self.flow.server, request)
        if isinstance(target, Response):
            return target
        step = self.flow.step(request, target)
        if step is None:
            return self.flow.again(target)

        def look(tx: Transaction) -> _Has | None:
            user = self.flow.still(tx, step)
            if user is None:
                return None
            return _Has(
                user,
                tuple(tx.credentials.passkeys_of(user.uid)),
                tx.credentials.authenticator_of(user.uid) is not None,
                tx.credentials.recovery_codes_of(user.uid).left > 0,
            )

        has = await self.flow.server.store.read(look)
        return self.flow.again(target) if has is None else (target, step, has)

    def _page(
        self,
        request: Request,
        target: ReturnTarget,
        step: Step,
        has: _Has,
        wrong: str = "",
        wait: int = 0,
    ) -> Response:
        pending, passkeys = target.pending, self.flow.factors.passkeys
        browser = self.flow.server.cookies.browser(request)
        app = (
            None if pending is None else asking_app(pending.client, pending.asked, signed_in=False)
        )
        asks = bool(has.passkeys and passkeys.domain)
        page = SecondFactorPage(
            action=target.leads(SECOND_FACTOR),
            csrf=self.flow.server.csrf(browser, PURPOSE, target.about, str(step.uid)),
            begins=target.leads(SIGN_IN),
            username=has.user.username,
            app=app,
            passkey=passkeys.ask(PURPOSE, step.browser, request.at, uid=step.uid, of=has.passkeys)
            if asks
            else "",
            has_code=has.code,
            has_recovery=has.recovery,
            wrong=wrong,
            wait=wait,
            days=self.flow.factors.settings.remember_devices // days(1),
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        headers = (("retry-after", str(wait)),) if wait else ()
        returns_to = "" if pending is None else pending.asked.returns.redirect_uri
        return self.renderer.page(request, page, status, returns_to=returns_to, headers=headers)
