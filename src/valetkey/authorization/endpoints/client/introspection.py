"""POST /oauth/introspect: token introspection (RFC 7662).

Signed (RFC 9701) for callers that accept `application/token-introspection+jwt`, or are registered
with an algorithm for it: evidence that can be stored and shown to others.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequestAuthentication,
    require_query_allowed,
    token_parameter,
)
from valetkey.authorization.grant_types.family import fingerprint_of, parse_refresh_token
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.claim import NO_CLAIMS, ExtraClaim
from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client
from valetkey.authorization.protocol.client_authentication.method import Authenticated, not_proven
from valetkey.authorization.protocol.liveness import require_live
from valetkey.authorization.protocol.resource import plain
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.answer_cache import AnswerCache, CachedAnswer
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.read import (
    AccessTokenReader,
    Read,
    TokenState,
    is_reference,
)
from valetkey.authorization.tokens.signing_keys import ALGORITHM
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.access_token import act_of
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.request_samples import RequestSamples
from valetkey.kernel.secret import FingerprintKey, same
from valetkey.web.exchange import Pairs, Request, Response, json_response

SIGNED = "application/token-introspection+jwt"
"""The media type of a signed response."""

_TYP = "token-introspection+jwt"
_JSON = "application/json"
_NEVER = re.compile(r"q=0(?:\.0*)?", re.ASCII)
_NO_STORE: Pairs = (("cache-control", "no-store"),)
_INACTIVE: Mapping[str, object] = MappingProxyType({"active": False})


class _Caller(Struct, frozen=True):
    """The caller of introspection: a client, and the API whose credential it used, "" for none."""

    client: Client
    audience: str

    def may_know(self, token: Read) -> bool:
        """Return whether the token was issued to the client, or for its API."""
        return self.client.id == token.client_id or self.audience == token.audience


class IntrospectionEndpoint(Struct, frozen=True):
    """An API may introspect its own tokens, another confidential client those issued to it.

    The default API's resource server also its refresh tokens. Anything else, including codes and
    expired tokens, is exactly `{"active":false}`.
    """

    store: Store
    client_auth: ClientRequestAuthentication
    reader: AccessTokenReader
    apis: ApiDirectory
    directory: ClientDirectory
    claims: TokenClaims
    fingerprints: FingerprintKey
    issuer: str
    refuse: ClientRefusal
    subjects: Subjects
    known: AnswerCache[CachedAnswer[TokenState]]
    samples: RequestSamples

    async def __call__(self, request: Request) -> Response:
        """Return the members of RFC 7662 section 2.2, and `grant_id` for resource servers."""
        client_id = None
        try:
            asked = self.client_auth.read(request)
            proven = await self.client_auth.authenticate(request, asked)
            client_id = proven.client.id
            require_query_allowed(asked, proven)
            _require_confidential(proven)
            api = await self.apis.of_credential(proven.client)
            caller = _Caller(proven.client, "" if api is None else api.identifier)
            registered = proven.client.openid.introspection_signed_response_alg
            signs = _wants_signed(request.headers.all("accept"), registered=bool(registered))
            said = await self._introspect(caller, token_parameter(asked), request.at, signs=signs)
        except Refused as refused:
            return self.refuse(request, refused.refusal, client_id)
        kind = client_id, "POST", request.path, request.at
        if api is None and self.samples.due(*kind):
            self.samples.add(*kind)
        if isinstance(said, Response):
            return said
        if signs:
            algorithm = Algorithm(registered) if registered else ALGORITHM
            return await self._signed(said, client_id, request.at, algorithm)
        return json_response(dict(said), 200, _NO_STORE)

    async def _introspect(
        self, caller: _Caller, token: str, now: Instant, *, signs: bool
    ) -> Mapping[str, object] | Response:
        """Return the members; the response to this caller if its token is cached and not signed."""
        known = await self.known.find(token, now)
        number = self.known.number
        # A client with pairwise subjects needs the user's name for its sector.
        is_pairwise = caller.client.openid.is_pairwise
        if known is not None and not is_pairwise and _is_live(known.known, now):
            kept = None if signs else known.response_to(caller.client)
            if kept is not None:
                return kept
            said = self._response(caller, known.known, now, "")
            if signs:
                return said
            response = json_response(dict(said), 200, _NO_STORE)
            known.keep(caller.client, response)
            return response
        read = await self.reader.read_by_value(token, now)
        is_of_default_api = caller.audience in ("", self.reader.audience)
        declared = await self.claims.introspected(self.directory.revision)
        takes_one = not is_pairwise and not declared
        if is_reference(token) and is_of_default_api and takes_one:
            found = await self.store.read_one(
                lambda tx: self.reader.find_unexpired_reference(tx, token, now)
            )
            if found is None:
                return _INACTIVE
            if found.read.audience == self.reader.audience:
                self.known.add(token, number, CachedAnswer(found), now)
                return self._response(caller, found, now, "")
        # Looked up apart: a subject for its sector, the client of a JWT without a grant, claims of
        # the user, and whether another API ended.
        of_grant = read is not None and read.grant_id and read.audience == self.reader.audience
        ask = self.store.read_one if of_grant and takes_one else self.store.read
        said, found = await ask(lambda tx: self._say(tx, caller, token, read, declared, now))
        if found is not None:
            self.known.add(token, number, CachedAnswer(found), now)
        return said

    async def _signed(
        self, said: Mapping[str, object], client_id: str, now: Instant, algorithm: Algorithm
    ) -> Response:
        await self.reader.keys.refresh(now)
        # No top-level `sub` and `exp`: it must not be usable as an access token (RFC 9701 section
        # 5).
        claims = {
            "iss": self.issuer,
            "aud": client_id,
            "iat": now,
            "token_introspection": dict(said),
        }
        text = jwt.sign(claims, self.reader.keys.current(now, algorithm), typ=_TYP)
        return Response(200, text.encode("ascii"), (("content-type", SIGNED), *_NO_STORE))

    def _say(
        self,
        tx: Transaction,
        caller: _Caller,
        token: str,
        by_value: Read | None,
        declared: Sequence[ExtraClaim],
        now: Instant,
    ) -> tuple[Mapping[str, object], TokenState | None]:
        if (parts := parse_refresh_token(token)) is not None:
            return self._say_refresh_token(tx, caller, parts, now), None
        found = self.reader.find_for_any_api(tx, token, by_value, now)
        if found is None:
            return _INACTIVE, None
        read, api = found.read, self.apis.default
        if read.audience != self.reader.audience:
            named = self.apis.find(tx, read.audience)
            if named is None or named.identifier != read.audience:
                return _INACTIVE, None
            api = named
        if declared and read.uid is not None:
            user = found.user or tx.users.find(Uid(read.uid))
            of_user = self.claims.of_introspection(
                tx, declared, read.client_id, api, read.scope, user
            )
            found = replace(found, of_user=of_user)
        return self._response(caller, found, now, self._subject(tx, caller, found.read.uid)), found

    def _response(
        self, caller: _Caller, found: TokenState, now: Instant, subject: str
    ) -> Mapping[str, object]:
        live = found.read
        if require_live(found.liveness, now) is not None or not caller.may_know(live):
            return _INACTIVE
        said: dict[str, object] = {
            **live.claims,
            **(found.of_user if caller.audience == live.audience else NO_CLAIMS),
            "active": True,
            "scope": str(live.scope),
            "client_id": live.client_id,
            "token_type": "bearer",
            "sub": subject or live.subject,
            "aud": live.audience,
            "iss": self.issuer,
            "iat": live.issued_at,
            "exp": live.expires_at,
            "jti": live.token_id,
        }
        if live.grant_id is not None:
            said["grant_id"] = live.grant_id
        if live.actors:
            said["act"] = act_of(live.actors)
        return said

    def _subject(self, tx: Transaction, caller: _Caller, uid: int | None) -> str:
        """Return the pairwise subject of the user for the caller; "" for a public one, the uid."""
        if uid is None or not caller.client.openid.is_pairwise:
            return ""
        user = tx.users.find(Uid(uid))
        return "" if user is None else self.subjects.of(user, caller.client)

    def _say_refresh_token(
        self, tx: Transaction, caller: _Caller, parts: tuple[str, str], now: Instant
    ) -> Mapping[str, object]:
        secret, grant_id = parts
        found = tx.grants.find(grant_id)
        if found is None or require_live(found.liveness, now) is not None:
            return _INACTIVE
        grant = found.grant
        if caller.client.id not in (RESOURCE_SERVER, grant.client_id):
            return _INACTIVE
        if grant.refresh_print is None:
            return _INACTIVE
        if not same(fingerprint_of(self.fingerprints, secret, grant_id), grant.refresh_print):
            return _INACTIVE
        if grant.refresh_expires_at is None or grant.refresh_expires_at <= now:
            return _INACTIVE
        # No token_type: that member says how an access token is presented.
        return {
            "active": True,
            "scope": str(plain(grant.scope)),
            "client_id": grant.client_id,
            "sub": self._subject(tx, caller, grant.uid) or str(grant.uid),
            "iss": self.issuer,
            "iat": grant.created_at,
            "exp": grant.refresh_expires_at,
        }


def _is_live(found: TokenState, now: Instant) -> bool:
    """Return whether the token is live by what is cached; a session may have been extended."""
    return found.read.is_live(now) and require_live(found.liveness, now) is None


def _wants_signed(accept: Sequence[str], *, registered: bool) -> bool:
    """Return whether to sign the response; without a preference in Accept, as registered."""
    if not any(SIGNED in each.lower() for each in accept) and not registered:
        return False
    named: dict[str, bool] = {}
    for item in ",".join(accept).lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        named[name] = not any(_NEVER.fullmatch(each) for each in parameters)
    if SIGNED in named:
        return named[SIGNED]
    return registered and not named.get(_JSON, False)


def _require_confidential(proven: Authenticated) -> None:
    if proven.client.is_public:
        raise Refused(not_proven("public", "a confidential client", "a public client"))
