"""GET /oauth/sign-in/with/<provider>/callback: back from another server, and who came."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from valetkey.authorization.deeds.account.identities import connect, whose
from valetkey.authorization.endpoints.visitor.federation.federation import (
    ARRIVED,
    CONNECTIONS,
    WITH,
    Federation,
    with_place,
)
from valetkey.authorization.endpoints.visitor.federation.going_on import goes_on
from valetkey.authorization.endpoints.visitor.site import HOME, SIGN_IN
from valetkey.authorization.model.account.user import User
from valetkey.authorization.pages.visitor.federation.failed import FailedPage
from valetkey.authorization.sign_in.federation.provider import (
    FEDERATED,
    Claimed,
    Provider,
    unusable,
)
from valetkey.authorization.sign_in.federation.trip import Arrival, Errand, Trip
from valetkey.authorization.sign_in.session import (
    NewSession,
    SignedIn,
    find_still_signed_in,
    prove,
    sign_in,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import STATUS, ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_PARAMETERS = ("code", "error", "iss")


@dataclass(frozen=True, slots=True)
class ArriveEndpoint:
    """Reads the answer of a provider, once, in the browser that left."""

    federation: Federation

    async def get(self, request: Request) -> Response:
        """Go on where the trip began."""
        provider, site = self.federation.provider(request), self.federation.site
        query = read_query(request.hidden_query)
        state, now = query.get("state") or "", request.at
        browser = site.cookies.browser_print(site.cookies.browser(request))
        trips = self.federation.trips
        trip = await site.store.write(lambda tx: trips.take(tx, state, browser, now))
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
        seen = await site.signed_in(request)
        if seen is None or seen.session.id != trip.session_id:
            return site.goes_to(SIGN_IN)
        if trip.errand is Errand.CONNECT:
            return await self._connect(request, seen, provider, claimed)
        return await self._confirm(request, seen, provider, trip, claimed)

    async def _sign_in(
        self, request: Request, provider: Provider, trip: Trip, claimed: Claimed
    ) -> Response:
        site, now = self.federation.site, request.at
        new = NewSession.fresh(request.headers.get("user-agent") or "", site.random)
        cookie, key = site.cookies.session(request), site.keyring.fingerprint_key

        def work(tx: Transaction) -> User | str | None:
            user = whose(tx, claimed, now)
            if user is None or user.disabled_at is not None or tx.users.has_second_factor(user.uid):
                return user
            return sign_in(tx, cookie, new, user, key, site.sessions, now, methods=(FEDERATED,))

        found = await site.store.write(work)
        if found is None:
            return self._arrived(request, provider, trip, claimed)
        if isinstance(found, str):
            cookies = site.cookies.begin(new.cookie, found)
            return goes_on(site, request, found, cookies, sealed=trip.interaction, to=trip.to)
        if found.disabled_at is not None:
            refusal = unusable(provider.settings, "disabled").refusal
            return self._failed(request, provider, trip, refusal)
        return await self.federation.second_step(request, found, trip.interaction, trip.to)

    def _arrived(
        self, request: Request, provider: Provider, trip: Trip, claimed: Claimed
    ) -> Response:
        arrival = Arrival(provider.settings.id, claimed, trip.browser, request.at)
        return self.federation.site.goes_to(
            with_place(ARRIVED, trip.interaction, trip.to), self.federation.remember(arrival)
        )

    async def _connect(
        self, request: Request, seen: SignedIn, provider: Provider, claimed: Claimed
    ) -> Response:
        site, now = self.federation.site, request.at

        def work(tx: Transaction) -> bool:
            asking = find_still_signed_in(tx, seen.session.id, site.sessions, now)
            return asking is not None and connect(tx, asking.user, claimed, now)

        done = "connected" if await site.store.write(work) else "taken"
        return site.goes_to(f"{CONNECTIONS}?{urlencode({done: provider.settings.id})}")

    async def _confirm(
        self, request: Request, seen: SignedIn, provider: Provider, trip: Trip, claimed: Claimed
    ) -> Response:
        site, now = self.federation.site, request.at
        new = NewSession.fresh(request.headers.get("user-agent") or "", site.random)
        cookie, key = site.cookies.session(request), site.keyring.fingerprint_key

        def work(tx: Transaction) -> bool:
            asking = find_still_signed_in(tx, seen.session.id, site.sessions, now)
            user = whose(tx, claimed, now)
            if asking is None or user is None or user.uid != asking.user.uid:
                return False
            return prove(tx, cookie, new, asking, key, now, methods=(FEDERATED,))

        if not await site.store.write(work):
            refusal = unusable(provider.settings, "another_person").refusal
            return self._failed(request, provider, trip, refusal)
        return site.goes_to(trip.to or HOME, *site.cookies.begin(new.cookie, seen.session.id))

    def _failed(
        self, request: Request, provider: Provider, trip: Trip, refusal: Refusal
    ) -> Response:
        site = self.federation.site
        declined = refusal.check == "federation.declined"
        reference = ""
        if not declined:
            endpoint = f"{WITH}/{provider.settings.id}/callback"
            reference = site.decisions.put(refusal, endpoint=endpoint, at=request.at)
        back = (
            CONNECTIONS
            if trip.errand is Errand.CONNECT
            else with_place(SIGN_IN, trip.interaction, trip.to)
        )
        page = FailedPage(provider.settings.name, back, reference, declined=declined)
        return site.page(request, page, 200 if declined else STATUS[refusal.code])


def _answer(query: Form) -> Mapping[str, str]:
    found = {name: query.get(name) for name in _PARAMETERS}
    return {name: value for name, value in found.items() if value is not None}
