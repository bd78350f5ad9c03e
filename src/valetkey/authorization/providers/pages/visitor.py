"""Pages that send users to a provider, and receive those whom it authenticated."""

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar
from urllib.parse import urlencode

from msgspec import Struct, field

from valetkey.authorization.actions.users import Faults
from valetkey.authorization.authentication.session import SignedIn, find_still_signed_in
from valetkey.authorization.email.notices import Notices, SignInMethod
from valetkey.authorization.endpoints.authorize.checks import (
    check_interaction,
    open_interaction,
    open_pending,
)
from valetkey.authorization.endpoints.authorize.pending import Server, sealed_for, sealed_in
from valetkey.authorization.feature import Site
from valetkey.authorization.layout.addresses import SIGN_IN, safe_return_path
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.model.user import User
from valetkey.authorization.protocol.authorization_request import Prompt
from valetkey.authorization.protocol.csrf import check_csrf_token
from valetkey.authorization.providers.rules.identities import (
    FEDERATED,
    LIFETIME,
    WITH,
    AlreadyLinked,
    ClaimedIdentity,
    FederatedAccounts,
    Provider,
    UnlinkedIdentity,
    UpstreamPurpose,
    UpstreamSignIn,
    UpstreamSignIns,
    connect,
    redirect_uri,
    unusable,
    user_of_identity,
)
from valetkey.authorization.providers.rules.registry import Providers
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    PageVisit,
    SeeOther,
    Show,
    VisitorRequest,
    anyone,
    require_confirmed,
    signed_in,
    visitor_request,
)
from valetkey.authorization.site.sign_in.flow import (
    ReturnTarget,
    SecondFactorNeeded,
    SignInComplete,
    SignInFlow,
)
from valetkey.authorization.site.sign_in.sign_in import SignInLink
from valetkey.authorization.storage.credentials import Limit
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import SignUpMode
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import encode_pairs
from valetkey.web.body import Form, read_parameters, read_query
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Interrupt, Request, see_other

ARRIVED = "/oauth/sign-in/arrived"
CONNECTIONS = "/account/connections"

REDIRECT = "federation"
"""The purpose of the token of links that redirect to a provider."""

_DEPARTURES = Limit(60, minutes(15))
"""Maximum rate of redirects to providers for one network, each a row: those that prove no identity.

An office behind one address signs in as often as it likes.
"""


class Federation(Struct, frozen=True):
    """Parts shared by the pages. `sign_up` says whether new users may create an account."""

    server: Server
    flow: SignInFlow
    notices: Notices
    providers: Providers
    pending_sign_ins: UpstreamSignIns
    newcomers: FederatedAccounts
    sign_up: bool

    @staticmethod
    def from_site(site: Site) -> "Federation":
        """Return the parts of a server."""
        server, services = site.server, site.services
        keyring, settings = server.keyring, services.settings
        return Federation(
            server,
            site.flow,
            site.parts.notices,
            site.parts.kept(Providers),
            UpstreamSignIns(keyring.fingerprint_key, keyring.sealer, server.random),
            FederatedAccounts(services.accounts, settings.brand.name),
            sign_up=settings.accounts.sign_up is SignUpMode.OPEN,
        )

    def provider(self, request: Request) -> Provider:
        """Return the provider that the path names; Refused (not_found) for any other."""
        provider = self.providers.find(request.arguments["provider"])
        if provider is None:
            raise Refused.because(
                ErrorCode.NOT_FOUND, "this provider is not configured", "federation.provider"
            )
        return provider

    def callback(self, provider: Provider) -> str:
        """Return the callback URL of the provider."""
        return redirect_uri(self.server.issuer, provider.settings.id)

    def links(
        self, browser: str, errand: UpstreamPurpose, about: str, *, sealed: str = "", to: str = ""
    ) -> tuple[SignInLink, ...]:
        """Return a link for each provider; each keeps the user's return target.

        Links, not forms: browsers apply the form-action policy to every redirect after a form, and
        the URLs through which a provider redirects are unknown.
        """
        more = {"interaction": sealed, "to": to}
        token = self.server.csrf(browser, REDIRECT, errand, about)
        parameters = {"errand": errand.value, "csrf": token, **more}
        query = urlencode({name: value for name, value in parameters.items() if value})
        return tuple(
            SignInLink(
                provider.settings.id,
                provider.settings.name,
                f"{WITH}/{provider.settings.id}?{query}",
            )
            for provider in self.providers
        )

    def sign_in_links(
        self, browser: str, about: str, sealed: str, to: str
    ) -> tuple[SignInLink, ...]:
        """Return the links of the sign-in page."""
        return self.links(browser, UpstreamPurpose.SIGN_IN, about, sealed=sealed, to=to)

    async def redirect_to_provider(
        self, request: Request, provider: Provider, pending_sign_in: UpstreamSignIn, state: str
    ) -> SeeOther:
        """Store the pending sign-in and redirect the browser to the provider."""
        upstream_state = pending_sign_in.upstream_state(state, self.callback(provider))
        target = await provider.authorization_url(upstream_state)
        now = request.at
        print_ = self.server.keyring.fingerprint_key.fingerprint(
            "federation", network_of(request.address)
        )
        bucket = f"federation:{print_}"
        counted = replace(pending_sign_in, counted=bucket)
        voucher = self.pending_sign_ins.voucher(counted, state, now)

        def count_departure(tx: Transaction) -> int:
            wait = tx.throttles.take(bucket, _DEPARTURES, now)
            if not wait:
                tx.vouchers.issue(voucher)
            return wait

        if wait := await self.server.store.write(count_departure, done_by=USUAL_ACTOR):
            raise Refused.because(
                ErrorCode.SLOW_DOWN,
                "too many sign-in attempts from your network; try again later",
                "federation.throttled",
                retry_after=wait,
            )
        return SeeOther(target)

    def unlinked(self, request: Request) -> UnlinkedIdentity | None:
        """Return the pending unlinked identity of this browser; None without one."""
        sealed = request.cookie(self._cookie) or ""
        print_ = self.server.cookies.browser_fingerprint(self.server.cookies.browser(request))
        return UnlinkedIdentity.open(sealed, self.server.keyring.sealer, print_, request.at)

    def remember(self, unlinked: UnlinkedIdentity) -> tuple[str, str]:
        """Return the header that keeps the identity for a quarter of an hour."""
        sealed = unlinked.seal(self.server.keyring.sealer, self.server.random)
        return self._set(sealed, LIFETIME)

    def deleted_cookie(self) -> tuple[str, str]:
        """Return the header that deletes the cookie."""
        return self._set("", 0)

    @property
    def _cookie(self) -> str:
        return "__Host-arrival" if self.server.cookies.secure else "valetkey-arrival"

    def _set(self, value: str, age: int) -> tuple[str, str]:
        secure = "; Secure" if self.server.cookies.secure else ""
        text = f"{self._cookie}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Lax{secure}"
        return "set-cookie", text


def with_place(path: str, sealed: str, to: str) -> str:
    """Return the URL of the page at `path` with the return target: an app, or a local page."""
    parameters = {"interaction": sealed} if sealed else {"to": to} if to else {}
    return f"{path}?{urlencode(parameters)}" if parameters else path


_T = TypeVar("_T")


class FailedPage(Struct, frozen=True):
    """Say that the sign-in failed, with a link back."""

    template: ClassVar[str] = "providers/failed.html"
    title: ClassVar[str] = translatable("Not signed in")

    provider: str
    #: The page to try again, or to sign in by other means.
    back: str
    #: Names the record that says more; empty where nothing was wrong.
    reference: str = ""
    #: Whether the user denied access at the provider.
    declined: bool = False


_NO_TRIP = Refusal(
    ErrorCode.INVALID_REQUEST,
    translatable("this sign-in has expired or was started in another browser; start again"),
    "interaction.trip",
)
_PARAMETERS = ("code", "error", "iss")
_ANSWERED = (*_PARAMETERS, "state")
_LONGEST_ANSWER = 8_000


async def _redirect_to_get(visit: PageVisit) -> VisitorRequest:
    """Turn a response with `form_post` into one in the query.

    Browsers do not send our cookies with a form of another site, but with the redirect after it.
    """
    form, path = visit.form(), visit.request.path
    pairs = [(name, form.get(name) or "") for name in _ANSWERED if form and form.get(name)]
    url = f"{path}?{encode_pairs(pairs)}"
    raise Interrupt(see_other(url if len(url) <= _LONGEST_ANSWER else path))


class ProviderCallback(Struct, frozen=True):
    """Read the response of a provider, once, in the browser that was redirected there."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page at the callback URL. Its query contains the code."""
        path = f"{WITH}/{{provider}}/callback"
        act = Act(self.show, opaque=_ANSWERED, foreign=True, requires=_redirect_to_get)
        return (Page(path, anyone, self.show, act, hides_query=True, step=True),)

    async def show(self, request: VisitorRequest) -> Outcome:
        """Continue with the sign-in or link that the redirect began."""
        federation, server, came = self.federation, self.federation.server, request.request
        provider, now = federation.provider(came), request.now
        query = read_parameters(came.hidden_query)
        state = query.get("state") or ""
        browser = server.cookies.browser_fingerprint(server.cookies.browser(came))
        pending_sign_ins = federation.pending_sign_ins
        pending_sign_in = await server.store.write(
            lambda tx: pending_sign_ins.take(tx, state, browser, now), done_by=USUAL_ACTOR
        )
        if pending_sign_in is None or pending_sign_in.provider != provider.settings.id:
            begun = await server.store.read(lambda tx: pending_sign_ins.find(tx, state, browser))
            way = ("", "") if begun is None else (begun.interaction, begun.to)
            raise Refused(replace(_NO_TRIP, leads_to=with_place(SIGN_IN, *way)))
        upstream_state = pending_sign_in.upstream_state(state, federation.callback(provider))
        try:
            claimed = await provider.read(_answer(query), upstream_state, now)
        except Refused as refused:
            return self._failed(provider, pending_sign_in, refused.refusal, now)
        if pending_sign_in.errand is UpstreamPurpose.SIGN_IN:
            return await self._sign_in(came, provider, pending_sign_in, claimed, state)
        seen = await server.signed_in(came)
        if seen is None or seen.session.id != pending_sign_in.session_id:
            return SeeOther(SIGN_IN)
        return await self._connect(seen, pending_sign_in, provider, claimed, now)

    async def _sign_in(
        self,
        request: Request,
        provider: Provider,
        pending_sign_in: UpstreamSignIn,
        claimed: ClaimedIdentity,
        state: str,
    ) -> Outcome:
        flow, now = self.federation.flow, request.at
        target = await self._target(request, pending_sign_in)
        fresh, by = flow.fresh(request), (FEDERATED,)

        def admit_user(
            tx: Transaction,
        ) -> SignInComplete | SecondFactorNeeded | User | ClaimedIdentity:
            user = user_of_identity(tx, claimed, now)
            if user is None:
                return self.federation.pending_sign_ins.keep_claims(tx, claimed, state, now)
            if user.disabled_at is not None:
                return user
            return flow.admit(tx, request, target, fresh, user, by, claimed.auth_time)

        met = await flow.server.store.write(
            lambda tx: _uncounted(tx, pending_sign_in, admit_user), done_by=USUAL_ACTOR
        )
        if isinstance(met, ClaimedIdentity):
            has_claims = claimed.kept_claims is not None
            unlinked = UnlinkedIdentity(
                *(provider.settings.id, met, pending_sign_in.browser, now),
                state=state if has_claims else "",
            )
            to = with_place(ARRIVED, pending_sign_in.interaction, pending_sign_in.to)
            return SeeOther(to, (self.federation.remember(unlinked),))
        if isinstance(met, User):
            refusal = unusable(provider.settings, "disabled").refusal
            return self._failed(provider, pending_sign_in, refusal, now)
        if isinstance(met, SecondFactorNeeded):
            return flow.redirect_to_second_factor(request, target, met, by)
        return flow.continue_to(request, target, fresh, met)

    async def _target(self, request: Request, pending_sign_in: UpstreamSignIn) -> ReturnTarget:
        if not pending_sign_in.interaction:
            return ReturnTarget("", pending_sign_in.to)
        server = self.federation.server
        sealed = pending_sign_in.interaction
        interaction = await open_interaction(server, request, sealed)
        pending = await check_interaction(server, request, interaction)
        return ReturnTarget(sealed_for(server, pending, sealed), "", pending)

    async def _connect(
        self,
        seen: SignedIn,
        pending_sign_in: UpstreamSignIn,
        provider: Provider,
        claimed: ClaimedIdentity,
        now: Instant,
    ) -> Outcome:
        server, notices = self.federation.server, self.federation.notices

        def link_identity(tx: Transaction) -> bool:
            asking = find_still_signed_in(tx, seen.session.id, server.sessions, now)
            if asking is None or not connect(tx, asking.user, claimed, now):
                return False
            notices.sign_in_method_added(tx, asking.user, SignInMethod.ELSEWHERE, now, CONNECTIONS)
            return True

        done = (
            "connected"
            if await server.store.write(
                lambda tx: _uncounted(tx, pending_sign_in, link_identity), done_by=USUAL_ACTOR
            )
            else "taken"
        )
        return SeeOther(f"{CONNECTIONS}?{urlencode({done: provider.settings.id})}")

    def _failed(
        self, provider: Provider, pending_sign_in: UpstreamSignIn, refusal: Refusal, now: Instant
    ) -> Show:
        declined, reference = refusal.check == "federation.declined", ""
        if not declined:
            endpoint = f"{WITH}/{provider.settings.id}/callback"
            reference = self.federation.server.decisions.enqueue(refusal, endpoint=endpoint, at=now)
        back = (
            CONNECTIONS
            if pending_sign_in.errand is UpstreamPurpose.CONNECT
            else with_place(SIGN_IN, pending_sign_in.interaction, pending_sign_in.to)
        )
        page = FailedPage(provider.settings.name, back, reference, declined=declined)
        return Show(page, 200 if declined else refusal.code.status)


def _uncounted(
    tx: Transaction, pending_sign_in: UpstreamSignIn, work: Callable[[Transaction], _T]
) -> _T:
    """Do the work of a sign-in that proved an identity, and uncount it."""
    done = work(tx)
    # Last: users are locked before rate limits.
    tx.throttles.give_back(pending_sign_in.counted)
    return done


def _answer(query: Form) -> Mapping[str, str]:
    return {name: value for name in _PARAMETERS if (value := query.get(name))}


class UpstreamSignInRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request that redirects to a provider; `state` identifies it there."""

    provider: Provider
    pending_sign_in: UpstreamSignIn
    state: str


_ERRANDS = {purpose.value: purpose for purpose in UpstreamPurpose}


class ProviderRedirect(Struct, frozen=True):
    """Send users to a provider that authenticates them."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page whose URL redirects to a provider."""
        return (Page(f"{WITH}/{{provider}}", self._start_request, self.leave, step=True),)

    async def leave(self, request: UpstreamSignInRequest) -> Outcome:
        """Redirect to the provider."""
        return await self.federation.redirect_to_provider(
            request.request, request.provider, request.pending_sign_in, request.state
        )

    async def _start_request(self, visit: PageVisit) -> UpstreamSignInRequest:
        """Require a link from a page of this server: to sign in, or to link an account."""
        request, cookies = visit.request, visit.browsers.cookies
        provider, query = self.federation.provider(request), read_query(request.query)
        errand = _ERRANDS.get(query.get("errand") or "")
        if errand is None:
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                "the address is incomplete; start again at the sign-in page",
                "federation.errand",
            )
        browser = cookies.browser(request)
        state, nonce, verifier = self.federation.pending_sign_ins.draw()
        print_ = cookies.browser_fingerprint(browser) or ""
        pending_sign_in = UpstreamSignIn(provider.settings.id, errand, print_, nonce, verifier)
        go_on = self._sign_in if errand is UpstreamPurpose.SIGN_IN else self._connect
        pending_sign_in = await go_on(visit, query, browser, pending_sign_in)
        return UpstreamSignInRequest(
            request, provider=provider, pending_sign_in=pending_sign_in, state=state
        )

    async def _sign_in(
        self, visit: PageVisit, query: Form, browser: str, pending_sign_in: UpstreamSignIn
    ) -> UpstreamSignIn:
        sealed, fresh, about = query.get("interaction") or "", False, ""
        if sealed:
            pending = await open_pending(self.federation.server, visit.request)
            about, authorization = pending.interaction.id, pending.authorization
            fresh = Prompt.LOGIN in authorization.prompt or authorization.max_age is not None
        self._check(query, browser, pending_sign_in.errand, about)
        to = safe_return_path(query.get("to"))
        return replace(
            pending_sign_in,
            interaction=sealed,
            to=to,
            fresh=fresh,
            departed_at=visit.request.at,
        )

    async def _connect(
        self, visit: PageVisit, query: Form, browser: str, pending_sign_in: UpstreamSignIn
    ) -> UpstreamSignIn:
        request = await signed_in(visit)
        self._check(query, browser, pending_sign_in.errand, request.session.id)
        await require_confirmed(visit.browsers, request, CONNECTIONS)
        return replace(pending_sign_in, session_id=request.session.id)

    def _check(self, query: Form, browser: str, errand: UpstreamPurpose, about: str) -> None:
        expected = self.federation.server.csrf(browser, REDIRECT, errand, about)
        check_csrf_token(expected, query.all("csrf") if browser else ())


class UnlinkedIdentityPage(Struct, frozen=True):
    """Offer a new account, or to link an existing one.

    Posts `csrf`, `username` and `name`.
    """

    template: ClassVar[str] = "providers/arrived.html"
    title: ClassVar[str] = translatable("Welcome")

    provider: str
    #: How they are known over there; shown, never looked for.
    shown: str
    #: The URL of the form; "" if no account can be created.
    action: str
    #: The sign-in page, for the owner of an account.
    sign_in: str
    username: str = ""
    name: str = ""
    email: str = ""
    #: Whether an account here has the same address.
    taken: bool = False
    faults: Mapping[str, str] = field(default_factory=dict[str, str])


PURPOSE = "arrived"
"""The purpose of the form's CSRF token."""

_TEXTS = ("username", "name")
_BAD_REQUEST = 400
_CONFLICT = 409
_SAID: Mapping[str, str] = {
    "username": translatable(
        "Choose another username: letters and digits without spaces, and not already taken."
    ),
    "name": translatable("The name is too long, or contains invisible characters."),
}


class UnlinkedIdentityRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request of a visitor whom a provider authenticated, and who has no account here yet."""

    unlinked: UnlinkedIdentity


class UpstreamSignUp(Struct, frozen=True):
    """Offer to create an account if the provider verified an email address, or to link one."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        return (Page(ARRIVED, self._arrived, self.show, Act(self.join, opaque=_TEXTS)),)

    async def show(self, request: UnlinkedIdentityRequest) -> Outcome:
        """Offer to create an account, or to link the identity to an existing one."""
        claimed = request.unlinked.claimed
        return await self._page(request, claimed.username, claimed.name)

    async def join(self, request: UnlinkedIdentityRequest) -> Outcome:
        """Create the account, link the identity and sign in, in one transaction."""
        flow, newcomers, unlinked = (
            self.federation.flow,
            self.federation.newcomers,
            request.unlinked,
        )
        username, name = (request.form.get(form_field) or "" for form_field in _TEXTS)
        if not await self._may_join(unlinked):
            return await self._page(request, username, name, status=_CONFLICT)
        came, now = request.request, request.now
        target = await flow.target_of(came)
        fresh, begun = flow.fresh(came), list[SignInComplete]()

        def create_account(tx: Transaction) -> User | Faults | None:
            claimed = self.federation.pending_sign_ins.with_claims(tx, unlinked, now)
            made = newcomers.register(tx, claimed, username, name, now)
            if isinstance(made, User):
                begun.append(
                    flow.enter(tx, came, fresh, made, (FEDERATED,), auth_time=claimed.auth_time)
                )
            return made

        try:
            made = await flow.server.store.write(create_account, done_by=USUAL_ACTOR)
        except AlreadyLinked:
            made = None
        if isinstance(made, User):
            onward = flow.continue_to(came, target, fresh, begun[-1])
            return replace(onward, headers=(*onward.headers, self.federation.deleted_cookie()))
        faults = {} if made is None else {fault.field: _SAID.get(fault.field, "") for fault in made}
        status = _CONFLICT if made is None else _BAD_REQUEST
        return await self._page(request, username, name, faults=faults, status=status)

    async def _arrived(self, visit: PageVisit) -> UnlinkedIdentityRequest:
        """Require that a provider authenticated the visitor. Raises Interrupt otherwise."""
        it = visitor_request(visit, visit.form(), PURPOSE)
        unlinked = self.federation.unlinked(it.request)
        if unlinked is None:
            to = safe_return_path(it.query.get("to"))
            raise Interrupt(see_other(with_place(SIGN_IN, sealed_in(it.request), to)))
        return UnlinkedIdentityRequest(
            it.request, it.browser, it.csrf, it.headers, it.form, unlinked=unlinked
        )

    async def _may_join(self, unlinked: UnlinkedIdentity) -> bool:
        """Return whether an account can be created: sign-up is allowed and the address is free."""
        provider = self.federation.providers.find(unlinked.provider)
        email = unlinked.claimed.proven_email
        if not self.federation.sign_up or provider is None or not provider.settings.sign_up:
            return False
        return bool(email) and not await self._is_taken(unlinked)

    async def _is_taken(self, unlinked: UnlinkedIdentity) -> bool:
        # For an unverified address, this would tell strangers which addresses have accounts.
        email = unlinked.claimed.proven_email
        if not email:
            return False
        return await self.federation.server.store.read(
            lambda tx: tx.users.find_by_name(email) is not None
        )

    async def _page(
        self,
        request: UnlinkedIdentityRequest,
        username: str,
        name: str,
        *,
        faults: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> Show:
        unlinked, claimed = request.unlinked, request.unlinked.claimed
        provider = self.federation.providers.find(unlinked.provider)
        sealed, to = sealed_in(request.request), safe_return_path(request.query.get("to"))
        may_join = await self._may_join(unlinked)
        page = UnlinkedIdentityPage(
            provider=unlinked.provider if provider is None else provider.settings.name,
            shown=claimed.email or claimed.username or claimed.name or claimed.subject,
            action=with_place(ARRIVED, sealed, to) if may_join else "",
            sign_in=f"{SIGN_IN}?to={CONNECTIONS}",
            username=username,
            name=name,
            email=claimed.proven_email,
            taken=await self._is_taken(unlinked),
            faults=faults or {},
        )
        return Show(page, status)


def pages(site: Site) -> tuple[AnyPage, ...]:
    """Return the pages that need no session."""
    federation = Federation.from_site(site)
    return (
        *ProviderRedirect(federation).pages(),
        *ProviderCallback(federation).pages(),
        *UpstreamSignUp(federation).pages(),
    )
