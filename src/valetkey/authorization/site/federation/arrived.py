"""/oauth/sign-in/arrived: vouched for by another server, and nobody here yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from valetkey.authorization.actions.account.identities import Overtaken
from valetkey.authorization.actions.users import Faults
from valetkey.authorization.authentication.federation.provider import FEDERATED
from valetkey.authorization.authentication.federation.trip import Arrival
from valetkey.authorization.endpoints.authorize.pending import sealed_in
from valetkey.authorization.layout.addresses import SIGN_IN
from valetkey.authorization.layout.return_path import safe_return_path
from valetkey.authorization.model.account.user import User
from valetkey.authorization.site.federation.federation import (
    ARRIVED,
    CONNECTIONS,
    Federation,
    with_place,
)
from valetkey.authorization.site.sign_in.flow import Admitted, return_target_of
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Request, Response, see_other
from valetkey.web.form import read_form, read_query


@dataclass(frozen=True, slots=True)
class ArrivedPage:
    """Offer what is possible: an account of their own, or the one that they have.

    Posts `csrf`, `username` and `name`.
    """

    template: ClassVar[str] = "federation/arrived.html"

    provider: str
    #: How they are known over there; shown, never looked for.
    shown: str
    #: Where the form goes; empty where no account can be made.
    action: str
    csrf: str
    #: Where who has an account signs in to it.
    sign_in: str
    username: str = ""
    name: str = ""
    email: str = ""
    #: An account here has the same address.
    taken: bool = False
    faults: Mapping[str, str] = field(default_factory=dict[str, str])


PURPOSE = "arrived"
"""The purpose of the form's token."""

_TEXTS = ("username", "name")
_BAD_REQUEST = 400
_CONFLICT = 409
_SAID: Mapping[str, str] = {
    "username": translatable(
        "Take another: letters and digits without spaces, and not one of another person."
    ),
    "name": translatable("It is too long, or has characters that cannot be shown."),
}


@dataclass(frozen=True, slots=True)
class ArrivedEndpoint:
    """Offers an account to whoever has a proven address, or the way to the one they have."""

    federation: Federation

    async def get(self, request: Request) -> Response:
        """The page; without an arrival, the sign-in page."""
        arrival = self.federation.arrival(request)
        if arrival is None:
            return self._back(request)
        claimed = arrival.claimed
        return await self._page(request, arrival, claimed.username, claimed.name)

    async def post(self, request: Request) -> Response:
        """Make the account, connected and signed in, all or nothing."""
        self.federation.server.check_origin(request)
        form = read_form(request.body, opaque=_TEXTS)
        arrival = self.federation.arrival(request)
        browser = self.federation.server.cookies.browser(request)
        self.federation.server.check_form(request, form, browser, PURPOSE)
        if arrival is None:
            return self._back(request)
        username, name = (form.get(each) or "" for each in _TEXTS)
        if not await self._may_join(arrival):
            return await self._page(request, arrival, username, name, status=_CONFLICT)
        target = await return_target_of(self.federation.server, request)
        if isinstance(target, Response):
            return target
        flow, newcomers, now = self.federation.flow, self.federation.newcomers, request.at
        fresh, begun = flow.fresh(request), list[Admitted]()

        def work(tx: Transaction) -> User | Faults | None:
            made = newcomers.register(tx, arrival.claimed, username, name, now)
            if isinstance(made, User):
                begun.append(flow.enter(tx, request, fresh, made, (FEDERATED,)))
            return made

        try:
            made = await self.federation.server.store.write(work)
        except Overtaken:
            made = None
        if isinstance(made, User):
            response = flow.goes_on(request, target, fresh, begun[-1])
            return replace(response, headers=(*response.headers, self.federation.forget()))
        faults = {} if made is None else {each.field: _SAID.get(each.field, "") for each in made}
        status = _CONFLICT if made is None else _BAD_REQUEST
        return await self._page(request, arrival, username, name, faults=faults, status=status)

    async def _may_join(self, arrival: Arrival) -> bool:
        """Whether an account can be made: allowed here and for that provider, address free."""
        provider = self.federation.providers.find(arrival.provider)
        email = arrival.claimed.proven_email
        if not self.federation.sign_up or provider is None or not provider.settings.sign_up:
            return False
        return bool(email) and not await self._is_taken(arrival)

    async def _is_taken(self, arrival: Arrival) -> bool:
        # Only of a proven address: of any other it would tell strangers who is here.
        email = arrival.claimed.proven_email
        if not email:
            return False
        return await self.federation.server.store.read(
            lambda tx: tx.users.find_by_name(email) is not None
        )

    async def _page(
        self,
        request: Request,
        arrival: Arrival,
        username: str,
        name: str,
        *,
        faults: Mapping[str, str] | None = None,
        status: int = 200,
    ) -> Response:
        claimed = arrival.claimed
        provider = self.federation.providers.find(arrival.provider)
        sealed, to = sealed_in(request), safe_return_path(read_query(request.query).get("to"))
        may_join = await self._may_join(arrival)
        page = ArrivedPage(
            provider=arrival.provider if provider is None else provider.settings.name,
            shown=claimed.email or claimed.username or claimed.name or claimed.subject,
            action=with_place(ARRIVED, sealed, to) if may_join else "",
            csrf=self.federation.server.csrf(
                self.federation.server.cookies.browser(request), PURPOSE
            ),
            sign_in=f"{SIGN_IN}?to={CONNECTIONS}",
            username=username,
            name=name,
            email=claimed.proven_email,
            taken=await self._is_taken(arrival),
            faults=faults or {},
        )
        return self.federation.renderer.page(request, page, status)

    def _back(self, request: Request) -> Response:
        to = safe_return_path(read_query(request.query).get("to"))
        return see_other(with_place(SIGN_IN, sealed_in(request), to))
