"""POST /oauth/token and POST /token (RFC 6749 sections 3.2 and 5)."""

from collections.abc import Sequence

from msgspec import Struct, field

from valetkey.authorization.actions.registrations import Uses
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequest,
    ClientRequestAuthentication,
    require_query_allowed,
    require_registered,
)
from valetkey.authorization.grant_types.grant_type import (
    Authenticate,
    GrantType,
    PreparedSecrets,
    TokenRequest,
)
from valetkey.authorization.model.event.event import by_client
from valetkey.authorization.protocol.client_authentication.method import Authenticated, not_proven
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.identity_assertion import IdentityAssertions, IssuedAssertion
from valetkey.authorization.tokens.issue import Granted, TokenPolicy, TokenResponses, TokenSecrets
from valetkey.authorization.tokens.read import AccessTokenReader
from valetkey.kernel import metrics
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import FingerprintKey
from valetkey.kernel.tracing import RequestSamples
from valetkey.web.exchange import Pairs, Request, Response, json_response
from valetkey.web.security_headers import ANY_ORIGIN

_FORBIDDEN_SINCE = "@1349049600"
"""October 2012, when RFC 6749 section 2.3.1 forbade credentials in the URL."""

_NO_STORE: Pairs = (("cache-control", "no-store"), ("pragma", "no-cache"), *ANY_ORIGIN)


class TokenEndpoint(Struct, frozen=True):
    """A token endpoint for these grant types.

    `elsewhere` is the path that serves the others, for the error description.
    """

    store: Store
    client_auth: ClientRequestAuthentication
    grant_types: Sequence[GrantType]
    authenticate: Authenticate
    policy: TokenPolicy
    apis: ApiDirectory
    reader: AccessTokenReader
    claims: TokenClaims
    assertions: IdentityAssertions
    minter: TokenResponses
    fingerprints: FingerprintKey
    runtime: Runtime
    refuse: ClientRefusal
    elsewhere: str = ""
    uses: Uses = field(default_factory=Uses)
    samples: RequestSamples = field(default_factory=RequestSamples)

    async def __call__(self, request: Request) -> Response:
        """Return the token response after everything it depends on is committed."""
        client_id = None
        try:
            client_request = self.client_auth.read(request)
            grant_type = self._grant_type(client_request)
            proven = await self.client_auth.authenticate(request, client_request)
            client_id = proven.client.id
            require_query_allowed(client_request, proven)
            require_registered(proven.client, grant_type.name)
            return await self._answer(request, client_request, proven, grant_type)
        except Refused as refused:
            return self.refuse(request, refused.refusal, client_id)

    async def _answer(
        self,
        request: Request,
        client_request: ClientRequest,
        proven: Authenticated,
        grant_type: GrantType,
    ) -> Response:
        granted = await self._redeem(request, client_request, proven, grant_type)
        if granted is None:
            proven = await self.client_auth.prove_again(request, client_request)
            require_registered(proven.client, grant_type.name)
            granted = await self._redeem(request, client_request, proven, grant_type)
        client = proven.client
        if granted is None:
            granted = not_proven("disabled", "an enabled client", "a disabled one")
        if isinstance(granted, Refusal):
            return self.refuse(request, granted, client.id)
        metrics.TOKENS.add(grant_type.name, client.type.value)
        self.uses.remember_use(client, request.at)
        body = await self.minter.response(granted, request.at)
        kind = client.id, "POST", request.path, request.at
        if self.samples.due(*kind, grant_type.name):
            self.samples.add(*kind, grant_type=grant_type.name, scope=str(granted.scope))
        return json_response(body, 200, self._headers(client_request))

    async def _redeem(
        self,
        request: Request,
        client_request: ClientRequest,
        proven: Authenticated,
        grant_type: GrantType,
    ) -> Granted | IssuedAssertion | Refusal | None:
        """Return what was granted and committed; None if the client's record was outdated."""
        random, client = self.runtime.random, proven.client
        token_request = TokenRequest(
            client=client,
            parameters=client_request.parameters,
            fresh=PreparedSecrets(TokenSecrets(random), random),
            policy=self.policy,
            apis=self.apis,
            fingerprints=self.fingerprints,
            address=request.address,
            now=request.at,
            reader=self.reader,
            claims=self.claims,
            assertions=self.assertions,
        )
        self.apis.renew()
        await self.minter.keys.refresh_each_second(request.at)
        if grant_type.prepare is not None:
            token_request = await grant_type.prepare(token_request, self.authenticate)
        # Loaded before the transaction: nothing is spent if there is no signing key.
        self.minter.keys.current(request.at)

        def redeem_grant(tx: Transaction) -> Granted | IssuedAssertion | Refusal | None:
            # The client may have been disabled since authentication: other processes notice
            # later, and judging a password takes a while. What counts is the moment of issuing.
            if not self.client_auth.authentication.is_on(tx, client):
                return None
            granted = grant_type.redeem(tx, token_request)
            if not isinstance(granted, Refusal):
                self.uses.record(tx, client, request.at)
            return granted

        return await self.claims.supply(
            lambda: self.store.write(redeem_grant, done_by=by_client(client.id))
        )

    def _grant_type(self, client_request: ClientRequest) -> GrantType:
        name = client_request.parameters.get("grant_type")
        for grant_type in self.grant_types:
            if grant_type.name == name:
                return grant_type
        served = ", ".join(grant_type.name for grant_type in self.grant_types)
        hint = f"; {self.elsewhere} serves the others" if self.elsewhere else ""
        raise Refused.because(
            ErrorCode.UNSUPPORTED_GRANT_TYPE,
            f"grant_type must be one of: {served}{hint}",
            "grant_type.unknown" if name else "grant_type.missing",
            served,
            "another" if name else "nothing",
        )

    def _headers(self, client_request: ClientRequest) -> Pairs:
        if not client_request.in_query:
            return _NO_STORE
        page = f"{self.minter.issuer}/notices/query-string"
        return (
            *_NO_STORE,
            ("deprecation", _FORBIDDEN_SINCE),
            ("link", f'<{page}>; rel="deprecation"; type="text/html"'),
        )
