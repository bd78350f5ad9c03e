"""GET /oauth/sign-in/with/<provider>: the way to another server.

By GET, with a token of this browser in the address: nothing is changed but that a trip began.
"""

from dataclasses import dataclass, replace

from valetkey.authorization.authentication.federation.provider import Provider
from valetkey.authorization.authentication.federation.trip import UpstreamPurpose, UpstreamSignIn
from valetkey.authorization.endpoints.authorize.pending import open_pending
from valetkey.authorization.layout.addresses import safe_return_path
from valetkey.authorization.protocol.authorization_request import Prompt
from valetkey.authorization.protocol.csrf import check_csrf_token
from valetkey.authorization.site.federation.federation import (
    CONNECTIONS,
    LEAVE,
    WITH,
    Federation,
)
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    Visit,
    VisitorRequest,
    require_confirmed,
    signed_in,
)
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.form import Form, read_query


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSignInRequest(VisitorRequest):
    """A request that begins a trip to a provider; `state` names it there."""

    provider: Provider
    trip: UpstreamSignIn
    state: str


_ERRANDS = {each.value: each for each in UpstreamPurpose}


@dataclass(frozen=True, slots=True)
class ProviderRedirect:
    """Send users to a provider that authenticates them."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """The address that leads to a provider."""
        return (Page(f"{WITH}/{{provider}}", self._errand, self.leave, head=False),)

    async def leave(self, request: UpstreamSignInRequest) -> Outcome:
        """Redirect to the provider."""
        return await self.federation.depart(
            request.request, request.provider, request.trip, request.state
        )

    async def _errand(self, visit: Visit) -> UpstreamSignInRequest:
        """Require a link of a page of this server: to sign in, or to connect an account."""
        request, cookies = visit.request, visit.browsers.cookies
        provider, query = self.federation.provider(request), read_query(request.query)
        errand = _ERRANDS.get(query.get("errand") or "")
        if errand is None:
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "the address is incomplete; start again at the sign-in page",
                    "federation.errand",
                )
            )
        browser = cookies.browser(request)
        state, nonce, verifier = self.federation.trips.draw()
        print_ = cookies.browser_print(browser) or ""
        trip = UpstreamSignIn(provider.settings.id, errand, print_, nonce, verifier)
        go_on = self._sign_in if errand is UpstreamPurpose.SIGN_IN else self._connect
        trip = await go_on(visit, query, browser, trip)
        return UpstreamSignInRequest(request, provider=provider, trip=trip, state=state)

    async def _sign_in(
        self, visit: Visit, query: Form, browser: str, trip: UpstreamSignIn
    ) -> UpstreamSignIn:
        sealed, fresh, about = query.get("interaction") or "", False, ""
        if sealed:
            pending = await open_pending(self.federation.server, visit.request)
            about, asked = pending.interaction.id, pending.asked
            fresh = Prompt.LOGIN in asked.prompt or asked.max_age is not None
        self._check(query, browser, trip.errand, about)
        to = safe_return_path(query.get("to"))
        return replace(trip, interaction=sealed, to=to, fresh=fresh)

    async def _connect(
        self, visit: Visit, query: Form, browser: str, trip: UpstreamSignIn
    ) -> UpstreamSignIn:
        request = await signed_in(visit)
        self._check(query, browser, trip.errand, request.session.id)
        await require_confirmed(visit.browsers, request, CONNECTIONS)
        return replace(trip, session_id=request.session.id)

    def _check(self, query: Form, browser: str, errand: UpstreamPurpose, about: str) -> None:
        expected = self.federation.server.csrf(browser, LEAVE, errand, about)
        check_csrf_token(expected, query.all("csrf") if browser else ())
