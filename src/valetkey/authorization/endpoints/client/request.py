"""Requests of clients, and the responses to them."""

from functools import partial

from msgspec import Struct

from valetkey.authorization.client_authentication import (
    ClientAuthentication,
    VerifiedSecrets,
    spend_mark,
)
from valetkey.authorization.model.client import Client, GrantTypeName
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.protocol.authorization_response import explained_at
from valetkey.authorization.protocol.client_authentication.assertion import TYPE as ASSERTION_TYPE
from valetkey.authorization.protocol.client_authentication.client_secret import read_basic
from valetkey.authorization.protocol.client_authentication.method import Authenticated, Presented
from valetkey.authorization.protocol.resource import RESOURCE
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.storage.usage import ClientDecisionQueue
from valetkey.authorization.tokens.identity_assertion import is_identity_assertion
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.web.body import Form, read_parameters
from valetkey.web.client_address import network_of
from valetkey.web.exchange import Pairs, Request, Response, json_response
from valetkey.web.security_headers import ANY_ORIGIN

# Checked later: a password may contain characters that a name may not.
_OPAQUE = ("grant_type", "username", "password", "code_verifier")
_MULTIPLE = (RESOURCE,)


class ClientRequest(Struct, frozen=True):
    """A request to a client endpoint, and whether its parameters came in the URL."""

    parameters: Form
    in_query: bool


class ClientRequestAuthentication(Struct, frozen=True):
    """Authenticates clients. `audiences` are the accepted `aud` values of assertions."""

    store: Store
    authentication: ClientAuthentication
    verified: VerifiedSecrets
    audiences: tuple[str, ...]

    def read(self, request: Request) -> ClientRequest:
        """Return the parameters, from the body or from the query string, never from both."""
        body = read_parameters(request.body, opaque=_OPAQUE, multiple=_MULTIPLE)
        if not request.hidden_query:
            return ClientRequest(body, in_query=False)
        query = read_parameters(request.hidden_query, opaque=_OPAQUE, multiple=_MULTIPLE)
        if len(body):
            raise Refused.because(
                ErrorCode.INVALID_REQUEST,
                "parameters must come in the body or in the query string, not in both",
                "request.two_places",
                "one place",
                "body and query string",
            )
        return ClientRequest(query, in_query=True)

    async def authenticate(self, request: Request, client_request: ClientRequest) -> Authenticated:
        """Return the authenticated client. Raises Refused.

        One-time assertions are redeemed and the use of a secret in a URL is recorded, also if the
        request is refused: both are committed when this returns.
        """
        digest = self._digest(request, client_request)
        if digest is not None:
            named = client_request.parameters.get("client_id")
            authenticated_client = await self.verified.find(digest, named, request.at)
            if authenticated_client is not None:
                return authenticated_client
        try:
            proven = await self.authentication.authenticate(
                *self._presented(request, client_request)
            )
        except Refused as refused:
            raise _of_grant(refused, client_request) from None
        if digest is not None:
            self.verified.add(digest, proven, request.at)
        if proven.mark is not None or client_request.in_query:
            problem = await self.store.write(
                partial(_note, proven, client_request, request.at), done_by=USUAL_ACTOR
            )
            if problem is not None:
                raise _of_grant(Refused(problem), client_request)
        return proven

    async def prove_again(self, request: Request, client_request: ClientRequest) -> Authenticated:
        """Authenticate again with the client re-read from the database; nothing is redeemed."""
        try:
            return await self.authentication.authenticate_again(
                *self._presented(request, client_request)
            )
        except Refused as refused:
            raise _of_grant(refused, client_request) from None

    def _digest(self, request: Request, client_request: ClientRequest) -> bytes | None:
        if client_request.in_query:
            return None
        return self.verified.digest(
            request.headers.raw(b"authorization"), client_request.parameters
        )

    def _presented(self, request: Request, client_request: ClientRequest) -> tuple[Presented, str]:
        presented = Presented(
            parameters=_with_assertion(client_request.parameters),
            basic=read_basic(request.headers.get("authorization")),
            audiences=self.audiences,
            now=request.at,
        )
        return presented, network_of(request.address)


def _with_assertion(parameters: Form) -> Form:
    """Return the parameters in which an assertion that is a grant authenticates its client.

    The identity assertion of another server authenticates no client. Refused if the client
    authenticates by another assertion as well.
    """
    if not _authenticates(parameters):
        return parameters
    if "client_assertion" in parameters:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "the assertion authenticates the client; send no client_assertion",
            "jwt_bearer.two_assertions",
            "assertion",
            "assertion and client_assertion",
        )
    values = {name: parameters.get(name) or "" for name in parameters.names}
    values |= {"client_assertion": values["assertion"], "client_assertion_type": ASSERTION_TYPE}
    return Form(values)


def _authenticates(parameters: Form) -> bool:
    if parameters.get("grant_type") != GrantTypeName.JWT_BEARER:
        return False
    assertion = parameters.get("assertion")
    return assertion is not None and not is_identity_assertion(assertion)


def _of_grant(refused: Refused, client_request: ClientRequest) -> Refused:
    """Return the refusal, as `invalid_grant` for an assertion that is a grant (RFC 7523 3.1)."""
    refusal = refused.refusal
    if (
        not _authenticates(client_request.parameters)
        or refusal.code is not ErrorCode.INVALID_CLIENT
    ):
        return refused
    return Refused(replace(refusal, code=ErrorCode.INVALID_GRANT))


def _note(
    proven: Authenticated, client_request: ClientRequest, now: Instant, tx: Transaction
) -> Refusal | None:
    if client_request.in_query:
        tx.clients.count_query_credentials(proven.client.id, now)
    return spend_mark(tx, proven)


def require_query_allowed(client_request: ClientRequest, proven: Authenticated) -> None:
    """Refuse parameters in the URL unless the client's profile allows them.

    A user's password is refused there for every profile.
    """
    if client_request.in_query and "password" in client_request.parameters:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "a user's password never goes into the query string; send it in the body",
            "request.query_password",
            "password in the body",
            "password in the query string",
        )
    if client_request.in_query and not proven.client.profile.token_parameters_in_query:
        raise Refused.because(
            ErrorCode.INVALID_REQUEST,
            "this client's profile does not allow parameters in the query string; "
            "send them in the body",
            "request.query_profile",
            "parameters in the body",
            "parameters in the query string",
        )


def require_registered(client: Client, grant_type: str) -> None:
    """Refuse a client that may not use this grant type."""
    if client.may_use(grant_type):
        return
    raise Refused.because(
        ErrorCode.UNAUTHORIZED_CLIENT,
        "this client is not registered for this grant type",
        "grant_type.not_registered",
        ", ".join(sorted(client.grant_types)),
        grant_type,
    )


def token_parameter(client_request: ClientRequest) -> str:
    """Return the parameter `token`. Refused with `invalid_request` if it is missing."""
    token = client_request.parameters.get("token")
    if token:
        return token
    raise Refused.because(
        ErrorCode.INVALID_REQUEST,
        "the parameter token is missing",
        "parameter.token.missing",
        "token",
        "nothing",
    )


NOT_STORED: Pairs = (("cache-control", "no-store"), ("pragma", "no-cache"))
"""Responses must not be cached, also by HTTP/1.0 caches (RFC 6749 section 5.1)."""


class ClientRefusal(Struct, frozen=True):
    """A refusal as JSON: error code, description, `error_uri` and reference.

    `keeps_path` is False for requests to unknown paths: what was typed there may be a secret.
    """

    issuer: str
    decisions: ClientDecisionQueue
    keeps_path: bool = True

    def __call__(
        self, request: Request, refusal: Refusal, client_id: str | None = None
    ) -> Response:
        """Return the response and record the reason. `client_id` is authenticated."""
        endpoint = request.path if self.keeps_path else ""
        reference = self.decisions.enqueue(
            refusal,
            endpoint=endpoint,
            at=request.at,
            client_id=client_id,
            proven=client_id is not None,
        )
        body = {
            "error": refusal.code.value,
            "error_description": refusal.description,
            "error_uri": explained_at(self.issuer, refusal.code, reference),
            "reference": reference,
        }
        headers: list[tuple[str, str]] = [*NOT_STORED, *ANY_ORIGIN]
        if refusal.code is ErrorCode.INVALID_CLIENT:
            headers.append(("www-authenticate", f'Basic realm="{self.issuer}", charset="UTF-8"'))
        if refusal.code is ErrorCode.INVALID_TOKEN:
            headers.append(("www-authenticate", 'Bearer error="invalid_token"'))
        if refusal.retry_after:
            headers.append(("retry-after", str(refusal.retry_after)))
        return json_response(body, refusal.status or refusal.code.status, tuple(headers))
