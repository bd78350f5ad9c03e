"""GET and POST /oauth/userinfo: claims about the user of a token (Core section 5.3)."""

import re
from collections.abc import Mapping
from typing import NoReturn

from msgspec import Struct

from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.endpoints.client.request import ClientRefusal
from valetkey.authorization.model.client import Client
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.client_keys import ClientSigner
from valetkey.authorization.tokens.read import AnswerCache, CachedAnswer
from valetkey.authorization.tokens.userinfo import UserInfo, UserInfoGrant, refuse_token
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.tracing import RequestSamples
from valetkey.web.body import read_parameters
from valetkey.web.exchange import Pairs, Request, Response, json_response

_PARAMETER = "access_token"
_SCHEME = re.compile(r"(?i:bearer)(?![^ \t,])", re.ASCII)
_BEARER = re.compile(r"(?i:bearer) ([A-Za-z0-9._~+/-]+=*)", re.ASCII)
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
_LONGEST = 16_384

NO_TOKEN = Refusal(
    ErrorCode.INVALID_TOKEN,
    "this needs an access token in the Authorization header: Bearer, a space, the token",
    "bearer.missing",
)
"""The refusal of a request without a token: its challenge has no error (RFC 6750 section 3.1)."""

_TOLD = frozenset(
    {ErrorCode.INVALID_TOKEN, ErrorCode.INSUFFICIENT_SCOPE, ErrorCode.INVALID_REQUEST}
)


def read_token(request: Request) -> str:
    """Return the token from the Authorization header or a POSTed form.

    Raises Refused: `NO_TOKEN` if there is none, `invalid_token` if it is malformed, and
    `invalid_request` if it was sent in both places or in the address, which is written to logs.
    """
    if _PARAMETER in read_parameters(request.hidden_query or request.query, opaque=(_PARAMETER,)):
        _refuse(
            ErrorCode.INVALID_REQUEST,
            "an access token in the address is not taken; send it in the Authorization header",
            "query",
        )
    field = request.headers.get("authorization")
    # Only methods that define a body may carry it there (RFC 6750 section 2.2).
    body = request.body if request.method == "POST" else b""
    posted = read_parameters(body, opaque=(_PARAMETER,)).get(_PARAMETER)
    in_header = field is not None and _SCHEME.match(field) is not None
    if in_header and posted is not None:
        _refuse(
            ErrorCode.INVALID_REQUEST,
            "the access token came in the Authorization header and in the body; send it once",
            "twice",
        )
    if posted is not None:
        match = _TOKEN.fullmatch(posted)
        token = match[0] if match else ""
    elif field is not None and in_header:
        match = _BEARER.fullmatch(field)
        token = match[1] if match else ""
    else:
        raise Refused(NO_TOKEN)
    if not token or len(token) > _LONGEST:
        _refuse(ErrorCode.INVALID_TOKEN, "this is not the form of an access token", "malformed")
    return token


class BearerRefusal(Struct, frozen=True):
    """A refusal as JSON with a WWW-Authenticate challenge (RFC 6750 section 3).

    `scope` is what would suffice; `headers` are added to every response, without duplicates.
    """

    refuse: ClientRefusal
    scope: str
    headers: Pairs = ()

    def __call__(self, request: Request, refusal: Refusal) -> Response:
        """Return the response; the reason is kept in a decision record."""
        response = self.refuse(request, refusal)
        parts = [f'realm="{self.refuse.issuer}"']
        if refusal != NO_TOKEN:
            parts.append(f'error="{refusal.code}"')
            parts.append(f'error_description="{_quoted(refusal.description)}"')
        if refusal.code is ErrorCode.INSUFFICIENT_SCOPE:
            parts.append(f'scope="{self.scope}"')
        names = {"www-authenticate", *(name for name, _ in self.headers)}
        kept = [pair for pair in response.headers if pair[0] not in names]
        if refusal.code in _TOLD:
            kept.append(("www-authenticate", "Bearer " + ", ".join(parts)))
        return Response(response.status, response.body, (*kept, *self.headers))


def _quoted(text: str) -> str:
    """Remove characters that could end the quoted string or the header line."""
    return "".join(char for char in text if " " <= char <= "~" and char not in '"\\')


def _refuse(code: ErrorCode, description: str, check: str) -> NoReturn:
    raise Refused.because(code, description, f"bearer.{check}", "one access token", "other")


ANY_ORIGIN: Pairs = (
    ("access-control-allow-origin", "*"),
    ("access-control-expose-headers", "www-authenticate"),
)
"""Any origin may read the response: it requires a token and ignores cookies."""

_NO_STORE: Pairs = (("cache-control", "no-store"), *ANY_ORIGIN)
_JWT = ("content-type", "application/jwt")


class UserInfoEndpoint(Struct, frozen=True):
    """Responds with JSON, or with a JWT if the client registered for one."""

    store: Store
    directory: ClientDirectory
    userinfo: UserInfo
    signer: ClientSigner
    issuer: str
    cache: AnswerCache[CachedAnswer[UserInfoGrant]]
    samples: RequestSamples

    async def __call__(self, request: Request) -> Response:
        """Return the claims. Raises Refused."""
        answer = await self._requested_claims(read_token(request), request.at)
        grant = answer.value
        client = await self.directory.find(grant.client_id)
        if client is None:
            refuse_token("a token of no client")
        kind = client.id, request.method, request.path, request.at
        if self.samples.due(*kind):
            self.samples.add(*kind)
        if (kept := answer.response_to(client)) is not None:
            return kept
        claims, registered = self.userinfo.claims(grant, client), client.openid
        if registered.userinfo_signed_response_alg or registered.userinfo_encrypted_response_alg:
            return await self._protected(claims, client, request.at)
        response = json_response(claims, 200, _NO_STORE)
        if not registered.is_pairwise:
            answer.keep(client, response)
        return response

    async def _requested_claims(self, token: str, now: Instant) -> CachedAnswer[UserInfoGrant]:
        claims = self.userinfo.token_claims
        cached = await self.cache.find(token, now)
        number = self.cache.number
        if cached is not None and cached.value.holds(now):
            return cached
        read = await self.userinfo.reader.read_by_value(token, now)
        there = await claims.supply(
            lambda: self.cache.from_replica(
                lambda tx: self.userinfo.requested_claims(tx, token, read, now)
            )
        )
        if there is not None:
            number, on_replica = there
            answer = CachedAnswer(on_replica)
            self.cache.add(token, number, answer, now)
            return answer
        grant = None
        await self.directory.compare()
        declared = await claims.as_of(self.directory.revision)
        if self.userinfo.takes_one_statement(read, declared):
            grant = await self.store.read_one(
                lambda tx: self.userinfo.requested_claims(tx, token, read, now, declared)
            )
        if grant is None or not grant.is_complete:
            grant = await claims.supply(
                lambda: self.store.read(
                    lambda tx: self.userinfo.requested_claims(tx, token, read, now)
                )
            )
        answer = CachedAnswer(grant)
        self.cache.add(token, number, answer, now)
        return answer

    async def _protected(
        self, claims: Mapping[str, object], client: Client, now: Instant
    ) -> Response:
        registered = client.openid
        text = await self.signer.sign(
            {"iss": self.issuer, "aud": client.id, "iat": now, **claims},
            client,
            now,
            algorithm=registered.userinfo_signed_response_alg,
            encryption_alg=registered.userinfo_encrypted_response_alg,
            encryption_enc=registered.userinfo_encrypted_response_enc,
        )
        return Response(200, text.encode("ascii"), (_JWT, *_NO_STORE))
