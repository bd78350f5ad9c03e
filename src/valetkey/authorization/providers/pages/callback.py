"""GET /oauth/sign-in/with/<provider>/callback: read the provider's response and sign in."""

from collections.abc import Callable, Mapping
from typing import ClassVar, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.account.identities import connect, user_of_identity
from valetkey.authorization.authentication.federation.provider import (
    FEDERATED,
    ClaimedIdentity,
    Provider,
    unusable,
)
from valetkey.authorization.authentication.federation.upstream_sign_in import (
    UnlinkedIdentity,
    UpstreamPurpose,
    UpstreamSignIn,
)
from valetkey.authorization.authentication.session import (
    SignedIn,
    find_still_signed_in,
)
from valetkey.authorization.email.notices import SignInMethod
from valetkey.authorization.endpoints.authorize.checks import (
    check_interaction,
    open_interaction,
    open_pending,
)
from valetkey.authorization.endpoints.authorize.pending import sealed_for
from valetkey.authorization.layout.addresses import SIGN_IN, WITH, safe_return_path
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.protocol.authorization_request import Prompt
from valetkey.authorization.protocol.csrf import check_csrf_token
from valetkey.authorization.site.federation.federation import (
    ARRIVED,
    CONNECTIONS,
    REDIRECT,
    Federation,
    with_place,
)
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
)
from valetkey.authorization.site.sign_in.flow import (
    ReturnTarget,
    SecondFactorNeeded,
    SignInComplete,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.url import encode_pairs
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Interrupt, Request, see_other
from valetkey.web.form import Form, read_parameters, read_query

_T = TypeVar("_T")


class FailedPage(Struct, frozen=True):
    """Say that the sign-in failed, with a link back."""

    template: ClassVar[str] = "federation/failed.html"
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
            has_claims = claimed.kept is not None
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
            notices.sign_in_method_added(tx, asking.user, SignInMethod.ELSEWHERE, now)
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


_ERRANDS = {each.value: each for each in UpstreamPurpose}


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
            about, asked = pending.interaction.id, pending.authorization
            fresh = Prompt.LOGIN in asked.prompt or asked.max_age is not None
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
