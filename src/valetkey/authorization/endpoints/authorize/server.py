"""Shared parts of the authorization endpoint and the pages that continue its requests."""

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from valetkey.authorization.actions.client_documents import ClientDocuments
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.authorize.request_object import RequestObjects
from valetkey.authorization.layout.addresses import AUTHORIZE
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.contexts import FormPostPage
from valetkey.authorization.layout.current_brand import CurrentBrand
from valetkey.authorization.layout.render import (
    content_security_policy,
    render,
)
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.authorization_request import Prompt
from valetkey.authorization.protocol.authorization_response import (
    ResponseMode,
    ReturnAddress,
    answer,
    error_answer,
    redirect_to,
)
from valetkey.authorization.storage.decisions import ClientDecisionQueue
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.id_token import IdTokenHints
from valetkey.authorization.tokens.issue import TokenPolicy
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refusal
from valetkey.kernel.secret import to_base64url
from valetkey.web.exchange import Pairs, Response, html_response, see_other


class SessionCallback(Protocol):
    """A redirect URI on this server, for requests in one session only."""

    @property
    def redirect_uri(self) -> str:
        """Return the address."""
        ...

    @property
    def session_id(self) -> str:
        """Return the id of the session."""
        ...


class Server(Browsers, frozen=True):
    """Clients, policies and responses to apps.

    `scopes` has the description of each scope that can be requested from users, `prompts` the
    supported values of `prompt`. `own_callback` returns the callback on this server that these
    parameters ask for at this time, if any.
    """

    directory: ClientDirectory
    apis: ApiDirectory
    claims: TokenClaims
    policy: TokenPolicy
    brands: CurrentBrand
    decisions: ClientDecisionQueue
    scopes: Mapping[str, str]
    prompts: Collection[Prompt]
    requests: RequestObjects
    documents: ClientDocuments
    hints: IdTokenHints
    own_callback: Callable[[Mapping[str, str], Instant], SessionCallback | None]

    @property
    def brand(self) -> Brand:
        """Return the current brand."""
        return self.brands.current

    @property
    def subjects(self) -> Subjects:
        """The subject identifiers by which each client knows a user."""
        return Subjects(self.keyring.fingerprint_key)

    def back(
        self, returns: ReturnAddress, refusal: Refusal, client: Client, at: Instant
    ) -> Response:
        """Send an error response to the client; the reference is for its developers."""
        reference = self.decisions.enqueue(refusal, endpoint=AUTHORIZE, at=at, client_id=client.id)
        pairs = error_answer(returns, self.issuer, refusal, reference)
        return self._carry(returns, pairs, client)

    def answer(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        """Send a success response to the client: `pairs`, its state and the issuer."""
        return self._carry(returns, answer(returns, self.issuer, pairs), client)

    def _carry(self, returns: ReturnAddress, pairs: Pairs, client: Client) -> Response:
        if returns.mode is not ResponseMode.FORM_POST:
            return see_other(redirect_to(returns, pairs))
        nonce = to_base64url(self.random(16))
        page = FormPostPage(returns.redirect_uri, pairs, client.name or client.id, nonce)
        policy = content_security_policy(returns_to=returns.redirect_uri, script_nonce=nonce)
        return html_response(render(page, brand=self.brand), 200, policy)
