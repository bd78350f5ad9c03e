"""GET and POST /oauth/authorize: the authorization endpoint (RFC 6749 section 3.1).

Every decision is made here, by the checks of `checks.py`; pages collect input and send the browser
back.
"""

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.email.links import SIGN_UP
from valetkey.authorization.endpoints.authorize.answer import Issued, answer
from valetkey.authorization.endpoints.authorize.checks import (
    ClientError,
    begin,
    check_interaction,
    find_and_prove,
    open_interaction,
)
from valetkey.authorization.endpoints.authorize.pending import Pending, address, decides_again
from valetkey.authorization.endpoints.authorize.server import Server
from valetkey.authorization.layout.addresses import CONSENT, REQUIRED_FACTOR, SIGN_IN
from valetkey.authorization.layout.language_choice import requested_languages_cookie
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import (
    PARAMETERS,
    UI_LOCALES,
    UNSUPPORTED,
)
from valetkey.authorization.protocol.authorization_response import ResponseType
from valetkey.authorization.protocol.interaction import (
    LONGEST,
    AddFactor,
    Interaction,
    Refuse,
    Respond,
    ShowSignIn,
    ShowSignUp,
    Step,
)
from valetkey.authorization.protocol.logout import session_state
from valetkey.authorization.protocol.resource import RESOURCE, plain
from valetkey.authorization.tokens.mint import TokenResponses
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import to_base64url
from valetkey.kernel.url import origin
from valetkey.web.body import Form, read_parameters
from valetkey.web.exchange import Pairs, Request, Response, see_other

_INTERACTION = "interaction"
_NO_BODY = Form({})
# Checked one by one, so that the error can be reported to the client.
_OPAQUE = (*PARAMETERS, *UNSUPPORTED)
_MULTIPLE = (RESOURCE,)
_PAGES: Mapping[type[Step], str] = MappingProxyType(
    {ShowSignIn: SIGN_IN, ShowSignUp: SIGN_UP, AddFactor: REQUIRED_FACTOR}
)


class Authorize(Struct, frozen=True):
    """The authorization endpoint."""

    server: Server
    minter: TokenResponses

    async def get(self, request: Request) -> Response:
        """Answer a client's request, or redirect its user to the next page."""
        query = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        # A client's request has `client_id` (RFC 6749 section 4.1.1); in it the interaction is an
        # unknown parameter and ignored. Without `client_id` the other parameters are ignored.
        sealed = None if "client_id" in query.names else query.get(_INTERACTION)
        if sealed:
            interaction = await open_interaction(self.server, request, sealed)
        else:
            interaction = await begin(self.server, request, query, _NO_BODY)
        return await self._go_on(request, interaction)

    async def post(self, request: Request) -> Response:
        """Redirect a POST request (RFC 6749 section 3.1) to GET.

        Browsers withhold SameSite cookies from a cross-site form post, but send them with the GET.
        """
        query = read_parameters(request.query, opaque=_OPAQUE, multiple=_MULTIPLE)
        body = read_parameters(request.body, opaque=_OPAQUE, multiple=_MULTIPLE)
        interaction = await begin(self.server, request, query, body)
        draft = await find_and_prove(self.server, interaction.parameters)
        url = decides_again(self.server, interaction)
        if len(url) > LONGEST:
            return self.server.back(draft.returns, _TOO_LONG, draft.client, request.at)
        return see_other(url)

    async def _go_on(self, request: Request, interaction: Interaction) -> Response:
        pending = await check_interaction(self.server, request, interaction)
        if not isinstance(pending.step, Respond | Refuse):
            return self._ask(request, pending, pending.step)
        if isinstance(pending.step, Refuse) and not pending.interaction.browser:
            # No page was shown: there is no interaction to redeem and no event to record.
            return self._refuse(request, pending, pending.step.refusal)
        if pending.authorization.response_type is not ResponseType.CODE:
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
            pending = replace(pending, authorization=outcome.authorization)
            return self._refuse(request, pending, outcome.refusal)
        if isinstance(outcome, Issued):
            return await self._issued(request, pending.client, outcome)
        return self._ask(request, pending, outcome)

    def _ask(self, request: Request, pending: Pending, step: Step) -> Response:
        browser, headers = self.server.browser(request)
        # The default scope at the time of the request applies until the request is answered.
        scope = str(plain(pending.authorization.scope))
        interaction = replace(
            pending.interaction,
            parameters={**pending.interaction.parameters, "scope": scope},
            browser=self.server.cookies.browser_fingerprint(browser) or "",
            client_generation=pending.client.generation,
        )
        if isinstance(step, AddFactor) and step.signs_in_again:
            interaction = replace(interaction, signed_in="")
        url = address(self.server, _PAGES.get(type(step), CONSENT), interaction)
        if len(url) > LONGEST:
            return self._refuse(request, pending, _TOO_LONG)
        if not pending.interaction.browser:
            # Once, at the start: a choice of the user applies until the request is answered.
            requested = pending.interaction.parameters.get(UI_LOCALES)
            secure, languages = self.server.cookies.secure, self.server.brand.languages
            headers = (
                *headers,
                *requested_languages_cookie(requested, request, languages, secure=secure),
            )
        return see_other(url, *headers)

    def _refuse(self, request: Request, pending: Pending, refusal: Refusal) -> Response:
        returns = pending.authorization.returns
        return self.server.back(returns, refusal, pending.client, request.at)

    async def _issued(self, request: Request, client: Client, issued: Issued) -> Response:
        returns = issued.authorization.returns
        try:
            pairs = await self._pairs(request, client, issued)
        except Refused as refused:
            # The registration cannot be honoured: no key for its algorithm, for example.
            refusal = replace(refused.refusal, code=ErrorCode.SERVER_ERROR)
            return self.server.back(returns, refusal, client, request.at)
        return self.server.answer(returns, pairs, client)

    async def _pairs(self, request: Request, client: Client, issued: Issued) -> Pairs:
        pairs: list[tuple[str, str]] = []
        returns = issued.authorization.returns
        code = access_token = ""
        if issued.code is not None:
            code = issued.code.reveal()
            pairs.append(("code", code))
        if issued.granted is not None:
            response = await self.minter.response(issued.granted, request.at)
            access_token = str(response["access_token"])
            # Name and email address do not belong in an address bar.
            pairs += [(name, str(value)) for name, value in response.items() if name != "info"]
        if issued.identity is not None:
            id_token = await self.minter.id_tokens.mint(
                issued.identity,
                request.at,
                access_token=access_token,
                code=code,
                state=returns.state or "",
            )
            pairs.append(("id_token", id_token))
        if issued.session_id:
            state = self.server.cookies.browser_state(issued.session_id)
            salt = to_base64url(self.server.random(12))
            value = session_state(client.id, origin(returns.redirect_uri), state, salt)
            pairs.append(("session_state", value))
        return tuple(pairs)


_TOO_LONG = Refusal(
    ErrorCode.INVALID_REQUEST,
    "the request is too long; use a shorter state, claims or id_token_hint",
    "authorize.long",
    f"at most {LONGEST} characters when sealed",
    "more",
)
