"""GET and POST /oauth/second-factor: the first factor was right, the second is asked for."""

from dataclasses import dataclass, replace
from typing import ClassVar

from valetkey.authorization.endpoints.authorize.pending import decides_again
from valetkey.authorization.layout.addresses import SECOND_FACTOR, SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.account.factors import Passkey
from valetkey.authorization.model.account.user import Uid, User
from valetkey.authorization.sign_in.factors.proof import Looked, Shown, Unproved
from valetkey.authorization.site.sign_in.flow import (
    Entered,
    Fresh,
    SignInFlow,
    Step,
    Way,
    return_target_of,
)
from valetkey.authorization.site.site import Site, asking_app
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.web.exchange import Request, Response
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
    """What somebody can show."""

    user: User
    passkeys: tuple[Passkey, ...]
    code: bool
    recovery: bool


@dataclass(frozen=True, slots=True)
class SecondFactorEndpoint:
    """The page of the second step."""

    site: Site

    async def get(self, request: Request) -> Response:
        """Ask; whoever did not take the first step here is led there."""
        found = await self._find(request)
        if isinstance(found, Response):
            return found
        way, step, has = found
        return self._page(request, way, step, has)

    async def post(self, request: Request) -> Response:
        """Judge, and let in."""
        self.site.check_origin(request)
        form = read_form(request.body, opaque=_OPAQUE)
        found = await self._find(request)
        if isinstance(found, Response):
            return found
        way, step, has = found
        browser = self.site.cookies.browser(request)
        self.site.check_form(request, form, browser, PURPOSE, way.about, str(step.uid))
        if way.pending is not None and form.get("decision") == "deny":
            denied = replace(way.pending.interaction, denied=True)
            dropped = self.site.cookies.step.drop()
            return self.site.goes_to(decides_again(self.site, denied), dropped)
        return await self._judge(request, form, way, step, has)

    async def _judge(
        self, request: Request, form: Form, way: Way, step: Step, has: _Has
    ) -> Response:
        site, now, uid = self.site, request.at, Uid(step.uid)
        doorway = SignInFlow(site)
        shown = Shown(
            form.get("code") or "", form.get("recovery") or "", form.get("credential") or ""
        )
        looked: Looked | None = None
        if shown.credential:
            looked = await site.factors.look(
                site.store, shown.credential, PURPOSE, step.browser, now, uid
            )
        fresh = doorway.fresh(request)
        familiar = doorway.familiar(request).mark(uid)
        remembers = form.get("remember") == "yes"

        def work(tx: Transaction) -> Entered | Unproved | None:
            user = doorway.still(tx, step)
            if user is None:
                return None
            proof = site.factors.prove(tx, user, shown, looked, familiar, "page", now)
            if isinstance(proof, Unproved):
                return proof
            if proof.left is not None and site.notices is not None:
                site.notices.recovery_code_used(tx, user, proof.left, now)
            methods = tuple(dict.fromkeys((*step.methods, *proof.methods)))
            return self._let_in(tx, request, fresh, user, methods, remembers)

        met = await site.store.write(work)
        if met is None:
            return doorway.again(way)
        if isinstance(met, Unproved):
            wrong = "passkey" if shown.credential else "recovery" if shown.recovery else "code"
            return self._page(request, way, step, has, wrong, met.wait)
        return doorway.goes_on(request, way, fresh, met)

    def _let_in(
        self,
        tx: Transaction,
        request: Request,
        fresh: Fresh,
        user: User,
        methods: tuple[str, ...],
        remembers: bool,
    ) -> Entered:
        doorway = SignInFlow(self.site)
        device = doorway.remember(tx, request, fresh, user.uid) if remembers else None
        return doorway.enter(tx, request, fresh, user, methods, device)

    async def _find(self, request: Request) -> tuple[Way, Step, _Has] | Response:
        way = await return_target_of(self.site, request)
        if isinstance(way, Response):
            return way
        doorway = SignInFlow(self.site)
        step = doorway.step(request, way)
        if step is None:
            return doorway.again(way)

        def look(tx: Transaction) -> _Has | None:
            user = doorway.still(tx, step)
            if user is None:
                return None
            return _Has(
                user,
                tuple(tx.credentials.passkeys_of(user.uid)),
                tx.credentials.authenticator_of(user.uid) is not None,
                tx.credentials.recovery_codes_of(user.uid).left > 0,
            )

        has = await self.site.store.read(look)
        return doorway.again(way) if has is None else (way, step, has)

    def _page(
        self, request: Request, way: Way, step: Step, has: _Has, wrong: str = "", wait: int = 0
    ) -> Response:
        site, pending, passkeys = self.site, way.pending, self.site.factors.passkeys
        browser = site.cookies.browser(request)
        app = (
            None if pending is None else asking_app(pending.client, pending.asked, signed_in=False)
        )
        asks = bool(has.passkeys and passkeys.domain)
        page = SecondFactorPage(
            action=way.leads(SECOND_FACTOR),
            csrf=site.csrf(browser, PURPOSE, way.about, str(step.uid)),
            begins=way.leads(SIGN_IN),
            username=has.user.username,
            app=app,
            passkey=passkeys.ask(PURPOSE, step.browser, request.at, uid=step.uid, of=has.passkeys)
            if asks
            else "",
            has_code=has.code,
            has_recovery=has.recovery,
            wrong=wrong,
            wait=wait,
            days=site.factors.settings.remember_devices // days(1),
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        headers = (("retry-after", str(wait)),) if wait else ()
        returns_to = "" if pending is None else pending.asked.returns.redirect_uri
        return site.page(request, page, status, returns_to=returns_to, headers=headers)
