"""GET /oauth/sign-in/with/<provider>/callback: back from another server, and who came."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import urlencode

from valetkey.authorization.actions.account.identities import connect, whose
from valetkey.authorization.authentication.federation.provider import (
    FEDERATED,
    Claimed,
    Provider,
    unusable,
)
from valetkey.authorization.authentication.federation.trip import Arrival, Errand, Trip
from valetkey.authorization.authentication.session import (
    SignedIn,
    find_still_signed_in,
)
from valetkey.authorization.email.notices import WayIn
from valetkey.authorization.endpoints.authorize.pending import judge, open_interaction
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.model.account.user import User
from valetkey.authorization.site.federation.federation import (
    ARRIVED,
    CONNECTIONS,
    WITH,
    Federation,
    with_place,
)
from valetkey.authorization.site.sign_in.flow import (
    Admitted,
    ReturnTarget,
    SecondFactorNeeded,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import STATUS, ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import Form, read_query


@dataclass(frozen=True, slots=True)
class FailedPage:
    """Say that nothing happened, and lead back."""

    template: ClassVar[str] = "federation/failed.html"

    provider: str
    #: Where to try again, or sign in by other means.
    back: str
    #: Names the record that says more; empty where nothing was wrong.
    reference: str = ""
    #: The person said no over there.
    declined: bool = False


_PARAMETERS = ("code", "error", "iss")


@dataclass(frozen=True, slots=True)
class ArriveEndpoint:
    """Reads the answer of a provider, once, in the browser that left."""

    federation: Federation

    async def get(self, request: Request) -> Response:
        """Go on where the trip began."""
        provider = self.federation.provider(request)
        query = read_query(request.hidden_query)
        state, now = query.get("state") or "", request.at
        browser = self.federation.server.cookies.browser_print(
            self.federation.server.cookies.browser(request)
        )
        trips = self.federation.trips
        trip = await self.federation.server.store.write(
            lambda tx: trips.take(tx, state, browser, now)
        )
        if trip is None or trip.provider != provider.settings.id:
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    "this sign-in is over, or it began in another browser; begin again",
                    "interaction.trip",
                )
            )
        journey = trip.journey(state, self.federation.callback(provider))
        try:
            claimed = await provider.read(_answer(query), journey, now)
        except Refused as refused:
            return self._failed(request, provider, trip, refused.refusal)
        if trip.errand is Errand.SIGN_IN:
            return await self._sign_in(request, provider, trip, claimed)
        seen = await self.federation.server.signed_in(request)
        if seen is None or seen.session.id != trip.session_id:
            return see_other(SIGN_IN)
        return await self._connect(request, seen, provider, claimed)

    async def _sign_in(
        self, request: Request, provider: Provider, trip: Trip, claimed: Claimed
    ) -> Response:
        now = request.at
        target = await self._way(request, trip)
        if isinstance(target, Response):
            return target
        flow = self.federation.flow
        fresh, by = flow.fresh(request), (FEDERATED,)

        def work(tx: Transaction) -> Admitted | SecondFactorNeeded | User | None:
            user = whose(tx, claimed, now)
            if user is None or user.disabled_at is not None:
                return user
            return flow.admit(tx, request, target, fresh, user, by)

        met = await self.federation.server.store.write(work)
        if met is None:
            return self._arrived(request, provider, trip, claimed)
        if isinstance(met, User):
            refusal = unusable(provider.settings, "disabled").refusal
            return self._failed(request, provider, trip, refusal)
        if isinstance(met, SecondFactorNeeded):
            return flow.asks_for_more(request, target, met, by)
        return flow.goes_on(request, target, fresh, met)

    async def _way(self, request: Request, trip: Trip) -> ReturnTarget | Response:
        if not trip.interaction:
            return ReturnTarget("", trip.to)
        pending = await judge(
            self.federation.server,
            request,
            open_interaction(self.federation.server, request, trip.interaction),
        )
        return (
            pending
            if isinstance(pending, Response)
            else ReturnTarget(trip.interaction, "", pending)
        )

    def _arrived(
        self, request: Request, provider: Provider, trip: Trip, claimed: Claimed
    ) -> Response:
        arrival = Arrival(provider.settings.id, claimed, trip.browser, request.at)
        return see_other(
            with_place(ARRIVED, trip.interaction, trip.to), self.federation.remember(arrival)
        )

    async def _connect(
        self, request: Request, seen: SignedIn, provider: Provider, claimed: Claimed
    ) -> Response:
        now = request.at

        def work(tx: Transaction) -> bool:
            asking = find_still_signed_in(tx, seen.session.id, self.federation.server.sessions, now)
            if asking is None or not connect(tx, asking.user, claimed, now):
                return False
            self.federation.notices.way_in_added(tx, asking.user, WayIn.ELSEWHERE, now)
            return True

        done = "connected" if await self.federation.server.store.write(work) else "taken"
        return see_other(f"{CONNECTIONS}?{urlencode({done: provider.settings.id})}")

    def _failed(
        self, request: Request, provider: Provider, trip: Trip, refusal: Refusal
    ) -> Response:
        declined = refusal.check == "federation.declined"
        reference = ""
        if not declined:
            endpoint = f"{WITH}/{provider.settings.id}/callback"
            reference = self.federation.server.decisions.put(
                refusal, endpoint=endpoint, at=request.at
            )
        back = (
            CONNECTIONS
            if trip.errand is Errand.CONNECT
            else with_place(SIGN_IN, trip.interaction, trip.to)
        )
        page = FailedPage(provider.settings.name, back, reference, declined=declined)
        return self.federation.renderer.page(
            request, page, 200 if declined else STATUS[refusal.code]
        )


def _answer(query: Form) -> Mapping[str, str]:
    found = {name: query.get(name) for name in _PARAMETERS}
    return {name: value for name, value in found.items() if value is not None}
