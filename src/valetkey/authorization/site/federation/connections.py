"""/account/connections: the accounts at other servers from which a person signs in."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.deeds.account.identities import (
    connect,
    disconnect,
    has_other_way_in,
)
from valetkey.authorization.deeds.account.notices import WayIn
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.identity import Identity
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.sign_in.federation.trip import Arrival, Errand
from valetkey.authorization.sign_in.session import find_still_signed_in
from valetkey.authorization.site.federation.federation import (
    CONNECTIONS,
    Federation,
)
from valetkey.authorization.site.sign_in.sign_in import ProviderButton
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.secret import same
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class Connection:
    """One of them. `key` names it in the form that ends it."""

    key: str
    provider: str
    shown: str
    since: When
    last_used: When | None
    #: Whether another way in would stay.
    can_end: bool


@dataclass(frozen=True, slots=True)
class ConnectionsPage:
    """List them, end one, connect another. Ending posts `csrf` and `connection`."""

    template: ClassVar[str] = "federation/connections.html"

    action: str
    csrf: str
    connections: tuple[Connection, ...]
    #: Providers that can be connected.
    providers: tuple[ProviderButton, ...]
    #: Who has arrived from there just now, and whose name they have over there.
    arrived_from: str = ""
    arrived_as: str = ""
    #: The name of what was just connected, or ended, or belongs to somebody else.
    connected: str = ""
    ended: bool = False
    taken: str = ""


_NEWS = minutes(5)


@dataclass(frozen=True, slots=True)
class ConnectionsEndpoint:
    """What is connected to the account of who is signed in."""

    federation: Federation

    async def get(self, request: Request) -> Response:
        """The list, and whoever has arrived just now."""
        seen = await visit(self.federation.site, request)
        if isinstance(seen, Response):
            return seen
        site, uid = self.federation.site, seen.signed_in.user.uid
        found = await site.store.read(lambda tx: _read(tx, uid))
        query = read_query(request.query)
        session_id = seen.signed_in.session.id
        browser = site.cookies.browser(request)
        arrival = self.federation.arrival(request)
        connected = self._name(query.get("connected"))
        page = ConnectionsPage(
            action=CONNECTIONS,
            csrf=seen.csrf,
            connections=tuple(
                Connection(
                    key=self._key(identity),
                    provider=self._name_of_issuer(identity.issuer),
                    shown=identity.shown,
                    since=When(identity.linked_at, request.at),
                    last_used=None
                    if identity.last_used_at is None
                    else When(identity.last_used_at, request.at),
                    can_end=can_end,
                )
                for identity, can_end in found
            ),
            providers=self.federation.buttons(browser, Errand.CONNECT, session_id),
            arrived_from="" if arrival is None else self._name(arrival.provider),
            arrived_as="" if arrival is None else _shown(arrival),
            connected=connected if _is_news(found, request.at) else "",
            ended=query.get("ended") is not None,
            taken=self._name(query.get("taken")),
        )
        return site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """End one, or connect who has arrived."""
        found = await posted(self.federation.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        site = self.federation.site
        if response := await stepped_up(site, request, seen, CONNECTIONS):
            return response
        if form.get("arrived") is not None:
            return await self._connect(request, seen)
        key, user, now = form.get("connection") or "", seen.signed_in.user, request.at
        identities = await site.store.read(lambda tx: tx.identities.of_user(user.uid))
        named = next((each for each in identities if same(self._key(each), key)), None)
        if named is None:
            raise nothing_there("connection")

        def work(tx: Transaction) -> bool:
            return disconnect(tx, user, named.issuer, named.subject, now)

        ended = await site.store.write(work)
        return site.goes_to(f"{CONNECTIONS}?ended=1" if ended else CONNECTIONS)

    async def _connect(self, request: Request, seen: Visit) -> Response:
        site, arrival, now = self.federation.site, self.federation.arrival(request), request.at
        if arrival is None:
            return site.goes_to(CONNECTIONS)
        claimed, session_id = arrival.claimed, seen.signed_in.session.id

        def work(tx: Transaction) -> bool:
            asking = find_still_signed_in(tx, session_id, site.sessions, now)
            if asking is None or not connect(tx, asking.user, claimed, now):
                return False
            if site.notices is not None:
                site.notices.way_in_added(tx, asking.user, WayIn.ELSEWHERE, now)
            return True

        done = "connected" if await site.store.write(work) else "taken"
        return site.goes_to(f"{CONNECTIONS}?{done}={arrival.provider}", self.federation.forget())

    def _key(self, identity: Identity) -> str:
        text = f"{identity.issuer} {identity.subject}"
        return self.federation.site.keyring.fingerprint_key.of("connection", text)

    def _name(self, provider: str | None) -> str:
        found = None if provider is None else self.federation.providers.find(provider)
        return "" if found is None else found.settings.name

    def _name_of_issuer(self, issuer: str) -> str:
        found = self.federation.providers.of_issuer(issuer)
        return issuer if found is None else found.settings.name


def _read(tx: Transaction, uid: Uid) -> list[tuple[Identity, bool]]:
    return [
        (each, has_other_way_in(tx, uid, each.issuer, each.subject))
        for each in tx.identities.of_user(uid)
    ]


def _is_news(found: list[tuple[Identity, bool]], now: Instant) -> bool:
    return any(identity.linked_at + _NEWS > now for identity, _ in found)


def _shown(arrival: Arrival) -> str:
    claimed = arrival.claimed
    return claimed.email or claimed.username or claimed.name or claimed.subject
