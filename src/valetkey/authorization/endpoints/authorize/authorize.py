"""GET and POST /oauth/authorize: the authorization endpoint (RFC 6749 section 3.1).

Every decision is made here; pages collect input and send the browser back.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.email.links import SIGN_UP
from valetkey.authorization.endpoints.authorize.answer import ClientError, Issued, answer
from valetkey.authorization.endpoints.authorize.pending import (
    Pending,
    address,
    check_interaction,
    decides_again,
    find_and_prove,
    find_client,
    open_interaction,
)
from valetkey.authorization.endpoints.authorize.request_object import WORTH_NEW_KEYS
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import CONSENT, SIGN_IN
from valetkey.authorization.layout.language_choice import requested_languages_cookie
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import (
    PARAMETERS,
    UI_LOCALES,
    UNSUPPORTED,
    known_parameters,
    require_client,
)
from valetkey.authorization.protocol.interaction import (
    LONGEST,
    Interaction,
    Refuse,
    Respond,
    SignIn,
    SignUp,
    Step,
)
from valetkey.authorization.protocol.logout import session_state
from valetkey.authorization.protocol.request_object import REQUEST, REQUEST_URI, ObjectRefused
from valetkey.authorization.protocol.resource import AUDIENCE, RESOURCE, joined, plain
from valetkey.authorization.protocol.response_type import ResponseType
from valetkey.authorization.tokens.mint import TokenResponses
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id, to_base64url
from valetkey.kernel.url import origin
from valetkey.web.exchange import Interrupt, Pairs, Request, Response, see_other
from valetkey.web.form import Form, read_parameters

_INTERACTION = "interaction"
# Checked one by one, so that the error can be reported to the client.
_OPAQUE = (*PARAMETERS, *UNSUPPORTED)
_MULTIPLE = (RESOURCE,)
_PAGES: Mapping[type[Step], str] = MappingProxyType({SignIn: SIGN_IN, SignUp: SIGN_UP})


class Authorize(Struct, frozen=True):
    """The authorization endpoint."""

    server: Server
    minter: TokenResponses

    async def get(self, request: Request) -> Response:
        """Answer a client's request, or redirect its user to the next page."""
        form = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        # A client's request has `client_id` (RFC 6749 section 4.1.1); in it the interaction is an
        # unknown parameter and ignored. Without `client_id` the other parameters are ignored.
        sealed = None if "client_id" in form.names else form.get(_INTERACTION)
        if sealed:
            interaction = await open_interaction(self.server, request, sealed)
        else:
            interaction = await self._begin(request, _values(form))
        return await self._go_on(request, interaction)

    async def post(self, request: Request) -> Response:
        """Redirect a POST request (RFC 6749 section 3.1) to GET.

        Browsers withhold SameSite cookies from a cross-site form post, but send them with the GET.
        """
        query = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        form = read_parameters(request.body, opaque=_OPAQUE, multiple=_MULTIPLE)
        if len(query) and len(form):
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                "parameters came in the query and in the body; send all of them in one place",
                "authorize.split",
                "one place",
                "two places",
            )
        interaction = await self._begin(request, _values(form if len(form) else query))
        client, returns = await find_and_prove(self.server, interaction.parameters)
        url = decides_again(self.server, interaction)
        if len(url) > LONGEST:
            return self.server.back(returns, _TOO_LONG, client, request.at)
        return see_other(url)

    async def _begin(self, request: Request, parameters: Mapping[str, str]) -> Interaction:
        said = self._understood(parameters)
        await self.server.documents.update_from_document(
            said.get("client_id"), request.address, request.at
        )
        if not said.keys().isdisjoint({REQUEST, REQUEST_URI}):
            # Resolved once: the object at the URL may differ later.
            client = await find_client(self.server, said.get("client_id"))
            try:
                said = self._understood(await self._resolved(said, client, request.at))
            except Refused as refused:
                if isinstance(refused, ObjectRefused):
                    said = known_parameters(refused.parameters)
                client, returns = await find_and_prove(self.server, said)
                response = self.server.back(returns, refused.refusal, client, request.at)
                raise Interrupt(response) from None
        return Interaction(
            id=fresh_id("in", self.server.random),
            parameters=said,
            browser="",
            started_at=request.at,
        )

    async def _resolved(
        self, said: Mapping[str, str], client: Client, now: Instant
    ) -> Mapping[str, str]:
        """Return the parameters of the request with those of its request object."""
        server = self.server
        try:
            return await server.requests.resolve(said, client, now)
        except ObjectRefused as refused:
            if refused.refusal.check not in WORTH_NEW_KEYS:
                raise
            # Its keys may have changed a moment ago: in its document, or with another process.
            await server.documents.renew(client.id, now, lacks_key=True)
            current = await server.directory.find_again(client.id)
            if current is None or current is client:
                raise
        return await server.requests.resolve(said, require_client(current), now)

    async def _go_on(self, request: Request, interaction: Interaction) -> Response:
        pending = await check_interaction(self.server, request, interaction)
        if not isinstance(pending.step, Respond | Refuse):
            return self._ask(request, pending, pending.step)
        if isinstance(pending.step, Refuse) and not pending.interaction.browser:
            # No page was shown: there is no interaction to redeem and no event to record.
            return self._refuse(request, pending, pending.step.refusal)
        if pending.asked.response_type is not ResponseType.CODE:
            # Loaded before the transaction: without a key nothing is spent.
            await self.minter.keys.refresh(request.at)
            self.minter.keys.current(request.at)
        try:
            outcome = await answer(self.server, pending, request.at)
        except Refused as refused:
            if not pending.interaction.browser:
                raise
            begins = address(self.server, SIGN_IN, pending.interaction)
            raise Refused(replace(refused.refusal, leads_to=begins)) from None
        if isinstance(outcome, ClientError):
            return self._refuse(request, replace(pending, asked=outcome.asked), outcome.refusal)
        if isinstance(outcome, Issued):
            return await self._issued(request, pending.client, outcome)
        return self._ask(request, pending, outcome)

    def _ask(self, request: Request, pending: Pending, step: Step) -> Response:
        browser, headers = self.server.browser(request)
        interaction = replace(
            pending.interaction,
            # The default scope at the time of the request applies until the request is answered.
            parameters={**pending.interaction.parameters, "scope": str(plain(pending.asked.scope))},
            browser=self.server.cookies.browser_fingerprint(browser) or "",
            client_generation=pending.client.generation,
        )
        url = address(self.server, _PAGES.get(type(step), CONSENT), interaction)
        if len(url) > LONGEST:
            return self._refuse(request, pending, _TOO_LONG)
        if not pending.interaction.browser:
            # Once, at the start: a choice of the user applies until the request is answered.
            wish = pending.interaction.parameters.get(UI_LOCALES)
            secure, languages = self.server.cookies.secure, self.server.brand.languages
            headers = (
                *headers,
                *requested_languages_cookie(wish, request, languages, secure=secure),
            )
        return see_other(url, *headers)

    def _refuse(self, request: Request, pending: Pending, refusal: Refusal) -> Response:
        return self.server.back(pending.asked.returns, refusal, pending.client, request.at)

    async def _issued(self, request: Request, client: Client, issued: Issued) -> Response:
        returns = issued.asked.returns
        try:
            pairs = await self._pairs(request, client, issued)
        except Refused as refused:
            # The registration cannot be honoured: no key for its algorithm, for example.
            refusal = replace(refused.refusal, code=ErrorCode.SERVER_ERROR)
            return self.server.back(returns, refusal, client, request.at)
        return self.server.answer(returns, pairs, client)

    async def _pairs(self, request: Request, client: Client, issued: Issued) -> Pairs:
        pairs: list[tuple[str, str]] = []
        code = access_token = ""
        if issued.code is not None:
            code = issued.code.reveal()
            pairs.append(("code", code))
        if issued.granted is not None:
            told = await self.minter.response(issued.granted, request.at)
            access_token = str(told["access_token"])
            # Name and email address do not belong in an address bar.
            pairs += [(name, str(value)) for name, value in told.items() if name != "info"]
        if issued.identity is not None:
            id_token = await self.minter.id_tokens.mint(
                issued.identity,
                request.at,
                access_token=access_token,
                code=code,
                state=issued.asked.returns.state or "",
            )
            pairs.append(("id_token", id_token))
        if issued.session_id:
            place = origin(issued.asked.returns.redirect_uri)
            state = self.server.cookies.browser_state(issued.session_id)
            salt = to_base64url(self.server.random(12))
            pairs.append(("session_state", session_state(client.id, place, state, salt)))
        return tuple(pairs)

    def _understood(self, parameters: Mapping[str, str]) -> dict[str, str]:
        """Return the parameters of the request, its APIs as values of `resource`."""
        apis = self.server.apis.named(parameters.get(RESOURCE, ""), parameters.get(AUDIENCE))
        return known_parameters({**parameters, RESOURCE: apis})


def _values(form: Form) -> dict[str, str]:
    values = {name: form.get(name) or "" for name in form.names}
    if RESOURCE in values:
        values[RESOURCE] = joined(form.all(RESOURCE))
    return values


_TOO_LONG = Refusal(
    ErrorCode.INVALID_REQUEST,
    "the request is too long; use a shorter state, claims or id_token_hint",
    "authorize.long",
    f"at most {LONGEST} characters when sealed",
    "more",
)
