"""Steps after the first factor: second factor, session, redirect."""

import hashlib
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.authentication.browsers import LIFETIME as FAMILIAR
from valetkey.authorization.authentication.factors import (
    Factors,
    FreshDevice,
    RecognisedDevice,
    recognise,
    remember_device,
)
from valetkey.authorization.authentication.session import NewSession, sign_in
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.endpoints.authorize.checks import open_pending
from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    Server,
    decides_again,
    sealed_for,
    sealed_in,
)
from valetkey.authorization.layout.addresses import (
    HOME,
    SECOND_FACTOR,
    SIGN_IN,
    returning_to,
    safe_return_path,
)
from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import acrs_of
from valetkey.authorization.site.page import (
    PageVisit,
    Requirement,
    SeeOther,
    VisitorRequest,
    visitor_request,
)
from valetkey.authorization.site.presentation import asking_app
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.keyring import Ticket, open_ticket, seal_ticket
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import same
from valetkey.web.body import read_query
from valetkey.web.exchange import Pairs, Request

STEP = minutes(10)
"""How long after the first factor the second one is accepted."""

_PURPOSE = "second factor"


class ReturnTarget(Struct, frozen=True):
    """The destination after sign-in: an app's request, a page, or the start page."""

    sealed: str
    to: str
    pending: Pending | None = None

    @property
    def about(self) -> str:
        """The id of the app's request, to which forms are bound, "" for none."""
        return "" if self.pending is None else self.pending.interaction.id

    @property
    def form_about(self) -> str:
        """The id of the app's request to which the forms of the arriving page are bound."""
        return "" if self.pending is None else self.pending.form_of

    def address_of(self, path: str) -> str:
        """Return the address of another page that keeps this target."""
        if self.sealed:
            return f"{path}?interaction={quote(self.sealed, safe='')}"
        return returning_to(path, self.to)


class TargetRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a visitor with a return target."""

    target: ReturnTarget

    @property
    def app(self) -> AskingApp | None:
        """Return the app whose request is pending; None without one."""
        pending = self.target.pending
        return (
            None
            if pending is None
            else asking_app(pending.client, pending.authorization, signed_in=False)
        )

    @property
    def returns_to(self) -> str:
        """The URL to which the forms of the page may redirect, "" for this server."""
        pending = self.target.pending
        return "" if pending is None else pending.authorization.returns.redirect_uri


class SignInStep(Ticket, frozen=True, array_like=True, kw_only=True):
    """Proof of the first factor, bound to the browser, the return target and the password."""

    return_target: str
    methods: tuple[str, ...]
    password: str


class PreparedSignIn(Struct, frozen=True):
    """Random values of a session and a device, drawn before the transaction that may use them."""

    session: NewSession
    device: FreshDevice


class SignInComplete(Struct, frozen=True):
    """The user is signed in. `device` is the remembered device, if there is one."""

    session_id: str
    uid: Uid
    device: RecognisedDevice | None = None


class SecondFactorNeeded(Struct, frozen=True):
    """The account has a second factor, and this browser is not a remembered device."""

    user: User
    password: str


class SignInFlow(Struct, frozen=True):
    """Begin sessions, or require the second factor first."""

    server: Server
    factors: Factors
    notices: Notices

    async def target_of(self, request: Request) -> ReturnTarget:
        """Read the return target from the address. Raises like `open_pending`."""
        sealed = sealed_in(request)
        if not sealed:
            return ReturnTarget("", safe_return_path(read_query(request.query).get("to")))
        pending = await open_pending(self.server, request)
        return ReturnTarget(sealed_for(self.server, pending, sealed), "", pending)

    def visitor(self, purpose: str) -> Requirement[TargetRequest]:
        """Require a valid return target; a form is bound to it."""

        async def requirement(visit: PageVisit) -> TargetRequest:
            form = visit.form()
            target = await self.target_of(visit.request)
            it = visitor_request(
                visit, form, purpose, target.about, form_about=(target.form_about,)
            )
            return TargetRequest(
                it.request, it.browser, it.csrf, it.headers, it.form, target=target
            )

        return requirement

    def fresh(self, request: Request) -> PreparedSignIn:
        """Generate the random values that a sign-in by this request may use."""
        random, key = self.server.random, self.server.keyring.fingerprint_key
        agent = request.headers.get("user-agent") or ""
        return PreparedSignIn(NewSession.fresh(agent, random), FreshDevice.draw(random, key))

    def admit(
        self,
        tx: Transaction,
        request: Request,
        target: ReturnTarget,
        fresh: PreparedSignIn,
        user: User,
        methods: tuple[str, ...],
        auth_time: Instant | None = None,
    ) -> SignInComplete | SecondFactorNeeded:
        """Sign in a user who proved one factor, at `auth_time`, unless a second one is needed."""
        if not tx.users.has_second_factor(user.uid):
            return self.enter(tx, request, fresh, user, methods, auth_time=auth_time)
        now, cookie = request.at, self.server.cookies.device.read(request)
        if cookie and not _insists_on_more(target, methods):
            device = recognise(tx, cookie, fresh.device, user.uid, now)
            if device is not None:
                return self.enter(tx, request, fresh, user, methods, device, auth_time)
        return SecondFactorNeeded(user, self._password_print(tx, user))

    def enter(
        self,
        tx: Transaction,
        request: Request,
        fresh: PreparedSignIn,
        user: User,
        methods: tuple[str, ...],
        device: RecognisedDevice | None = None,
        auth_time: Instant | None = None,
    ) -> SignInComplete:
        """Begin the session of a user who proved all that is needed, at `auth_time` or now."""
        session_id = sign_in(
            tx,
            self.server.cookies.session(request),
            fresh.session,
            user,
            self.server.keyring.fingerprint_key,
            self.server.sessions,
            request.at,
            methods=methods,
            device_id="" if device is None else device.device_id,
            auth_time=auth_time,
        )
        is_new = user.created_at != request.at and not self.server.known_browser(request).mark(
            user.uid
        )
        if is_new:
            self.notices.new_device(tx, user, request.at)
        return SignInComplete(session_id, user.uid, device)

    def remember(
        self, tx: Transaction, request: Request, fresh: PreparedSignIn, uid: Uid
    ) -> RecognisedDevice:
        """Remember this browser, so that it can skip the second factor for a while."""
        agent, lifetime = fresh.session.user_agent, self.factors.settings.remember_devices
        return remember_device(tx, fresh.device, uid, agent, request.at, lifetime)

    def continue_to(
        self,
        request: Request,
        target: ReturnTarget,
        fresh: PreparedSignIn,
        entered: SignInComplete,
    ) -> SeeOther:
        """Redirect to the target with the cookies of the new session."""
        cookies = self.server.cookies
        known_browser = self.server.known_browser(request).with_account(
            entered.uid, self.server.random
        )
        headers: Pairs = (
            *cookies.begin(fresh.session.cookie, entered.session_id),
            cookies.known_browser.set(known_browser, FAMILIAR),
        )
        if cookies.step.read(request):
            headers = (*headers, cookies.step.drop())
        if entered.device is not None and entered.device.cookie:
            left = entered.device.expires_at - request.at
            headers = (*headers, cookies.device.set(entered.device.cookie, left))
        if target.pending is None:
            return SeeOther(target.to or HOME, headers)
        interaction = target.pending.interaction
        signed_in = replace(interaction, signed_in=entered.session_id, decided="", allowed=())
        return SeeOther(decides_again(self.server, signed_in), headers)

    def back_to_app(self, request: TargetRequest) -> SeeOther | None:
        """Redirect to the app with `access_denied` if the form says so; None if it does not."""
        pending = request.target.pending
        if pending is None or request.form.get("decision") != "deny":
            return None
        return SeeOther(decides_again(self.server, replace(pending.interaction, denied=True)))

    def redirect_to_second_factor(
        self,
        request: Request,
        target: ReturnTarget,
        needed: SecondFactorNeeded,
        methods: tuple[str, ...],
    ) -> SeeOther:
        """Redirect to the page of the second factor, with sealed proof of the first in a cookie."""
        return self._step(request, target, _name(target), needed, methods)

    def _step(
        self,
        request: Request,
        target: ReturnTarget,
        name: str,
        needed: SecondFactorNeeded,
        methods: tuple[str, ...],
    ) -> SeeOther:
        step = SignInStep(
            uid=needed.user.uid,
            browser=self.server.cookies.browser_fingerprint(self.server.cookies.browser(request))
            or "",
            expires_at=later(request.at, STEP),
            return_target=name,
            methods=methods,
            password=needed.password,
        )
        sealed = seal_ticket(step, _PURPOSE, self.server.keyring.sealer, self.server.random)
        return SeeOther(target.address_of(SECOND_FACTOR), (self.server.cookies.step.set(sealed),))

    def step(self, request: Request, target: ReturnTarget) -> SignInStep | None:
        """Return the proof of the first factor for this browser and target; None without one."""
        text = self.server.cookies.step.read(request)
        step = open_ticket(text, SignInStep, _PURPOSE, self.server.keyring.sealer, STEP, request.at)
        browser = self.server.cookies.browser_fingerprint(self.server.cookies.browser(request))
        if step is None or browser is None or not same(step.browser, browser):
            return None
        # A form of an interaction that begins again belongs to the one before.
        return step if same(step.return_target, target.form_about or _name(target)) else None

    def still(self, tx: Transaction, step: SignInStep) -> User | None:
        """Return and lock the user of the proof, if password and account are unchanged."""
        tx.users.hold_alone(Uid(step.uid))
        user = tx.users.find(Uid(step.uid))
        if user is None or user.disabled_at is not None:
            return None
        return user if same(self._password_print(tx, user), step.password) else None

    def again(self, target: ReturnTarget) -> SeeOther:
        """Redirect to the start of the sign-in."""
        return SeeOther(target.address_of(SIGN_IN), (self.server.cookies.step.drop(),))

    def _password_print(self, tx: Transaction, user: User) -> str:
        stored = tx.users.password_hash(user.uid) or ""
        return self.server.keyring.fingerprint_key.fingerprint(
            "second factor", f"{user.generation} {stored}"
        )


def _name(target: ReturnTarget) -> str:
    # Hashed: a cookie would not hold the longest path.
    return target.about or f"to {hashlib.sha256(target.to.encode()).hexdigest()}"


def _insists_on_more(target: ReturnTarget, methods: tuple[str, ...]) -> bool:
    """Return whether the app requires an acr that the first factor alone does not reach."""
    if target.pending is None:
        return False
    needed = target.pending.authorization.needed_acrs
    return bool(needed) and set(needed).isdisjoint(acrs_of(methods))
