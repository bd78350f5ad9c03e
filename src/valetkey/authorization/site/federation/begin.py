"""GET /oauth/sign-in/with/<provider>: the way to another server.

By GET, with a token of this browser in the address: nothing is changed but that a trip began.
"""

from dataclasses import dataclass, replace

from valetkey.authorization.authentication.federation.trip import Errand, Trip
from valetkey.authorization.endpoints.authorize.pending import open_pending
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.protocol.authorization_request import Prompt
from valetkey.authorization.protocol.csrf import check_csrf_token
from valetkey.authorization.site.federation.federation import (
    CONNECTIONS,
    LEAVE,
    Federation,
)
from valetkey.authorization.site.page import Interrupt, require_confirmed, signed_in_request
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_ERRANDS = {each.value: each for each in Errand}


@dataclass(frozen=True, slots=True)
class LeaveEndpoint:
    """Sends people away to prove who they are."""

    federation: Federation

    async def get(self, request: Request) -> Response:
        """To sign in, or, for who is signed in, to connect what is there."""
        provider = self.federation.provider(request)
        query = read_query(request.query)
        errand = _ERRANDS.get(query.get("errand") or "")
        if errand is None:
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "this address is not complete; begin again at the sign-in page",
                    "federation.errand",
                )
            )
        browser = self.federation.server.cookies.browser(request)
        state, nonce, verifier = self.federation.trips.draw()
        print_ = self.federation.server.cookies.browser_print(browser) or ""
        trip = Trip(provider.settings.id, errand, print_, nonce, verifier)
        if errand is Errand.SIGN_IN:
            found = await self._sign_in(request, query, browser, trip)
        else:
            found = await self._connect(request, query, browser, trip)
        if isinstance(found, Response):
            return found
        return await self.federation.depart(request, provider, found, state)

    async def _sign_in(
        self, request: Request, query: Form, browser: str, trip: Trip
    ) -> Trip | Response:
        sealed, fresh, about = query.get("interaction") or "", False, ""
        if sealed:
            pending = await open_pending(self.federation.server, request)
            if isinstance(pending, Response):
                return pending
            about = pending.interaction.id
            asked = pending.asked
            fresh = Prompt.LOGIN in asked.prompt or asked.max_age is not None
        self._check(query, browser, trip.errand, about)
        to = safe_return_path(query.get("to"))
        return replace(trip, interaction=sealed, to=to, fresh=fresh)

    async def _connect(
        self, request: Request, query: Form, browser: str, trip: Trip
    ) -> Trip | Response:
        try:
            visitor = await signed_in_request(self.federation.server, request)
            self._check(query, browser, trip.errand, visitor.session.id)
            await require_confirmed(self.federation.server, visitor, CONNECTIONS)
        except Interrupt as interrupt:
            return interrupt.response
        return replace(trip, session_id=visitor.session.id)

    def _check(self, query: Form, browser: str, errand: Errand, about: str) -> None:
        expected = self.federation.server.csrf(browser, LEAVE, errand, about)
        check_csrf_token(expected, query.all("csrf") if browser else ())
