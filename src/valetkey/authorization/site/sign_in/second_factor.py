"""/oauth/second-factor: verify the second factor after the first."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.factors import (
    SubmittedFactor,
    VerificationFailed,
    VerifiedPasskey,
)
from valetkey.authorization.endpoints.authorize.pending import decides_again
from valetkey.authorization.layout.addresses import SECOND_FACTOR, SIGN_IN
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import Passkey, Uid, User
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    retry_after,
    visitor_request,
)
from valetkey.authorization.site.sign_in.flow import (
    SignInComplete,
    SignInFlow,
    SignInStep,
    TargetRequest,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import days
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.exchange import Interrupt


class SecondFactorPage(Struct, frozen=True):
    """Ask for a passkey, a code of an authenticator app, or a recovery code.

    Posts `csrf` and `credential`, `code` or `recovery`, and `remember` where it is ticked; or
    `decision=deny` when the visitor turns back.
    """

    template: ClassVar[str] = "sign_in/second_factor.html"
    title: ClassVar[str] = translatable("One more step")
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    #: Where to begin again as another user.
    begins: str
    username: str
    app: AskingApp | None = None
    #: The options for using a passkey, as JSON; "" if the account has none.
    passkey: str = ""
    has_code: bool = False
    has_recovery: bool = False
    #: The wrong factor: "passkey", "code" or "recovery"; "" for none.
    wrong: str = ""
    #: Seconds until another code is looked at.
    wait: int = 0
    #: Days in which this browser would not be asked again.
    days: int = 0


PURPOSE = "second-factor"
"""The purpose of the form's CSRF token, and of the passkey challenge."""

_OPAQUE = ("code", "recovery", "credential")
_UNAUTHORIZED = 401
_TOO_MANY = 429


class StepRequest(TargetRequest, frozen=True, kw_only=True):
    """A request of a user who proved the first factor, with the second factors of their account."""

    step: SignInStep
    user: User
    passkeys: tuple[Passkey, ...]
    has_code: bool
    has_recovery: bool


class SecondFactor(Struct, frozen=True):
    """Ask for the second factor after the first, and verify it."""

    flow: SignInFlow

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        prove = Act(self.verify_factor, opaque=_OPAQUE)
        return (Page(SECOND_FACTOR, self._begun, self.show, prove, step=True),)

    async def show(self, request: StepRequest) -> Outcome:
        """Show the form for the second factor."""
        return self._page(request)

    async def verify_factor(self, request: StepRequest) -> Outcome:
        """Verify the second factor and sign in."""
        flow, target, form = self.flow, request.target, request.form
        if target.pending is not None and form.get("decision") == "deny":
            denied = replace(target.pending.interaction, denied=True)
            dropped = flow.server.cookies.step.drop()
            return SeeOther(decides_again(flow.server, denied), (dropped,))
        step, came, now, uid = request.step, request.request, request.now, Uid(request.step.uid)
        shown = SubmittedFactor(
            form.get("code") or "", form.get("recovery") or "", form.get("credential") or ""
        )
        looked: VerifiedPasskey | None = None
        if shown.credential:
            looked = await flow.factors.find_passkey(
                flow.server.store, shown.credential, PURPOSE, step.browser, now, uid
            )
        fresh = flow.fresh(came)
        familiar = flow.server.known_browser(came).mark(uid)
        remembers = form.get("remember") == "yes"

        def verify_factor(tx: Transaction) -> SignInComplete | VerificationFailed | None:
            user = flow.still(tx, step)
            if user is None:
                return None
            proof = flow.factors.verify_factor(tx, user, shown, looked, familiar, "page", now)
            if isinstance(proof, VerificationFailed):
                return proof
            if proof.left is not None:
                flow.notices.recovery_code_used(tx, user, proof.left, now)
            methods = tuple(dict.fromkeys((*step.methods, *proof.methods)))
            device = flow.remember(tx, came, fresh, user.uid) if remembers else None
            return flow.enter(tx, came, fresh, user, methods, device)

        met = await flow.server.store.write(verify_factor, done_by=USUAL_ACTOR)
        if met is None:
            return flow.again(target)
        if isinstance(met, VerificationFailed):
            wrong = "passkey" if shown.credential else "recovery" if shown.recovery else "code"
            return self._page(request, wrong, met.wait)
        return flow.continue_to(came, target, fresh, met)

    async def _begun(self, visit: PageVisit) -> StepRequest:
        """Require proof of the first factor. Raises Interrupt, to the sign-in page, without it."""
        flow, form = self.flow, visit.form()
        target = await flow.target_of(visit.request)
        step = flow.step(visit.request, target)
        if step is None:
            raise Interrupt(flow.again(target).response)
        uid = str(step.uid)
        it = visitor_request(
            visit, form, PURPOSE, target.about, uid, form_about=(target.form_about, uid)
        )

        def read_state(tx: Transaction) -> StepRequest | None:
            user = flow.still(tx, step)
            if user is None:
                return None
            return StepRequest(
                it.request,
                it.browser,
                it.csrf,
                it.headers,
                it.form,
                target=target,
                step=step,
                user=user,
                passkeys=tuple(tx.credentials.passkeys_of(user.uid)),
                has_code=tx.credentials.authenticator_of(user.uid) is not None,
                has_recovery=tx.credentials.recovery_codes_of(user.uid).left > 0,
            )

        step_request = await flow.server.store.read(read_state)
        if step_request is None:
            raise Interrupt(flow.again(target).response)
        return step_request

    def _page(self, request: StepRequest, wrong: str = "", wait: int = 0) -> Show:
        factors, target, step = self.flow.factors, request.target, request.step
        keys, passkey = request.passkeys, ""
        if keys and factors.passkeys.domain:
            passkey = factors.passkeys.authentication_options(
                PURPOSE, step.browser, request.now, uid=step.uid, of=keys
            )
        page = SecondFactorPage(
            action=target.address_of(SECOND_FACTOR),
            begins=target.address_of(SIGN_IN),
            username=request.user.username,
            app=request.app,
            passkey=passkey,
            has_code=request.has_code,
            has_recovery=request.has_recovery,
            wrong=wrong,
            wait=wait,
            days=factors.settings.remember_devices // days(1),
        )
        status = _TOO_MANY if wait else _UNAUTHORIZED if wrong else 200
        return Show(page, status, retry_after(wait), request.returns_to)
