"""POST /oauth/introspect (RFC 7662) and POST /oauth/revoke (RFC 7009).

Signed (RFC 9701) for callers that accept `application/token-introspection+jwt`, or are registered
with an algorithm for it: evidence that can be stored and shown to others.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequestAuthentication,
    require_query_allowed,
    token_parameter,
)
from valetkey.authorization.grant_types.refresh_token import fingerprint_of, parse_refresh_token
from valetkey.authorization.model.api import NO_CLAIMS, ExtraClaim
from valetkey.authorization.model.client import RESOURCE_SERVER, Client
from valetkey.authorization.model.event.event import by_client
from valetkey.authorization.model.event.grants import AccessTokenRevoked, GrantRevoked
from valetkey.authorization.model.grant import require_live
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.client_authentication.method import Authenticated, not_proven
from valetkey.authorization.protocol.resource import plain
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.apis import ApiDirectory
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.read import (
    AccessTokenReader,
    AnswerCache,
    CachedAnswer,
    Read,
    TokenState,
    is_reference,
)
from valetkey.authorization.tokens.signing_keys import ALGORITHM
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.access_token import act_of
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import FingerprintKey, same
from valetkey.kernel.tracing import RequestSamples
from valetkey.web.exchange import Pairs, Request, Response, json_response
from valetkey.web.security_headers import ANY_ORIGIN

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
    cache: AnswerCache[CachedAnswer[TokenState]]
    samples: RequestSamples

    async def __call__(self, request: Request) -> Response:
        """Return the members of RFC 7662 section 2.2, and `grant_id` for resource servers."""
        client_id = None
        try:
            client_request = self.client_auth.read(request)
            proven = await self.client_auth.authenticate(request, client_request)
            client_id = proven.client.id
            require_query_allowed(client_request, proven)
            _require_confidential(proven)
            api = await self.apis.of_credential(proven.client)
            caller = _Caller(proven.client, "" if api is None else api.identifier)
            registered = proven.client.openid.introspection_signed_response_alg
            signs = _wants_signed(request.headers.all("accept"), registered=bool(registered))
            members = await self._introspect(
                caller, token_parameter(client_request), request.at, signs=signs
            )
        except Refused as refused:
            return self.refuse(request, refused.refusal, client_id)
        kind = client_id, "POST", request.path, request.at
        if api is None and self.samples.due(*kind):
            self.samples.add(*kind)
        if isinstance(members, Response):
            return members
        if signs:
            algorithm = Algorithm(registered) if registered else ALGORITHM
            return await self._signed(members, client_id, request.at, algorithm)
        return json_response(dict(members), 200, _NO_STORE)

    async def _introspect(
        self, caller: _Caller, token: str, now: Instant, *, signs: bool
    ) -> Mapping[str, object] | Response:
        """Return the members; the response to this caller if its token is cached and not signed."""
        cached = await self.cache.find(token, now)
        number = self.cache.number
        # A client with pairwise subjects needs the user's name for its sector.
        is_pairwise = caller.client.openid.is_pairwise
        if cached is not None and not is_pairwise and _is_live(cached.value, now):
            kept = None if signs else cached.response_to(caller.client)
            if kept is not None:
                return kept
            members = self._response(caller, cached.value, now, "")
            if signs:
                return members
            response = json_response(dict(members), 200, _NO_STORE)
            cached.keep(caller.client, response)
            return response
        read = await self.reader.read_by_value(token, now)
        is_of_default_api = caller.audience in ("", self.reader.audience)
        declared = await self.claims.introspected(self.directory.revision)
        # Rotation leaves the state of tokens as it is: a replica may have the refresh token before.
        if parse_refresh_token(token) is None:
            there = await self.cache.from_replica(
                lambda tx: _active(self._say(tx, caller, token, read, declared, now))
            )
            if there is not None:
                number, (members, state) = there
                self.cache.add(token, number, CachedAnswer(state), now)
                return members
        takes_one = not is_pairwise and not declared
        if is_reference(token) and is_of_default_api and takes_one:
            token_state = await self.store.read_one(
                lambda tx: self.reader.find_unexpired_reference(tx, token, now)
            )
            if token_state is None:
                return _INACTIVE
            if token_state.read.audience == self.reader.audience:
                self.cache.add(token, number, CachedAnswer(token_state), now)
                return self._response(caller, token_state, now, "")
        # Looked up apart: a subject for its sector, the client of a JWT without a grant, claims of
        # the user, and whether another API ended.
        of_grant = read is not None and read.grant_id and read.audience == self.reader.audience
        ask = self.store.read_one if of_grant and takes_one else self.store.read
        members, token_state = await ask(
            lambda tx: self._say(tx, caller, token, read, declared, now)
        )
        if token_state is not None:
            self.cache.add(token, number, CachedAnswer(token_state), now)
        return members

    async def _signed(
        self, members: Mapping[str, object], client_id: str, now: Instant, algorithm: Algorithm
    ) -> Response:
        await self.reader.keys.refresh(now)
        # No top-level `sub` and `exp`: it must not be usable as an access token (RFC 9701 section
        # 5).
        claims = {
            "iss": self.issuer,
            "aud": client_id,
            "iat": now,
            "token_introspection": dict(members),
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
        token_state = self.reader.find_for_any_api(tx, token, by_value, now)
        if token_state is None:
            return _INACTIVE, None
        read, api = token_state.read, self.apis.default
        if read.audience != self.reader.audience:
            named = self.apis.find(tx, read.audience)
            if named is None or named.identifier != read.audience:
                return _INACTIVE, None
            api = named
        if declared and read.uid is not None:
            user = token_state.user or tx.users.find(Uid(read.uid))
            of_user = self.claims.of_introspection(
                tx, declared, read.client_id, api, read.scope, user
            )
            token_state = replace(token_state, of_user=of_user)
        return self._response(
            caller, token_state, now, self._subject(tx, caller, token_state.read.uid)
        ), token_state

    def _response(
        self, caller: _Caller, token_state: TokenState, now: Instant, subject: str
    ) -> Mapping[str, object]:
        live = token_state.read
        if require_live(token_state.liveness, now) is not None or not caller.may_know(live):
            return _INACTIVE
        members: dict[str, object] = {
            **live.claims,
            **(token_state.of_user if caller.audience == live.audience else NO_CLAIMS),
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
            members["grant_id"] = live.grant_id
        if live.actors:
            members["act"] = act_of(live.actors)
        return members

    def _subject(self, tx: Transaction, caller: _Caller, uid: int | None) -> str:
        """Return the pairwise subject of the user for the caller; "" for a public one, the uid."""
        if uid is None or not caller.client.openid.is_pairwise:
            return ""
        user = tx.users.find(Uid(uid))
        return "" if user is None else self.subjects.subject_of(user, caller.client)

    def _say_refresh_token(
        self, tx: Transaction, caller: _Caller, parts: tuple[str, str], now: Instant
    ) -> Mapping[str, object]:
        secret, grant_id = parts
        grant_state = tx.grants.find(grant_id)
        if grant_state is None or require_live(grant_state.liveness, now) is not None:
            return _INACTIVE
        grant = grant_state.grant
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


def _active(
    answer: tuple[Mapping[str, object], TokenState | None],
) -> tuple[Mapping[str, object], TokenState] | None:
    members, token_state = answer
    return (members, token_state) if members.get("active") and token_state is not None else None


def _is_live(token_state: TokenState, now: Instant) -> bool:
    """Return whether the token is live by what is cached; a session may have been extended."""
    return token_state.read.is_live(now) and require_live(token_state.liveness, now) is None


def _wants_signed(accept: Sequence[str], *, registered: bool) -> bool:
    """Return whether to sign the response; without a preference in Accept, as registered."""
    if not any(SIGNED in header.lower() for header in accept) and not registered:
        return False
    named: dict[str, bool] = {}
    for item in ",".join(accept).lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        named[name] = not any(_NEVER.fullmatch(parameter) for parameter in parameters)
    if SIGNED in named:
        return named[SIGNED]
    return registered and not named.get(_JSON, False)


def _require_confidential(proven: Authenticated) -> None:
    if proven.client.is_public:
        raise Refused(not_proven("public", "a confidential client", "a public client"))


class RevocationEndpoint(Struct, frozen=True):
    """Responds with 200 for every token, so that a caller learns nothing about other tokens."""

    store: Store
    client_auth: ClientRequestAuthentication
    reader: AccessTokenReader
    fingerprints: FingerprintKey
    refuse: ClientRefusal

    async def __call__(self, request: Request) -> Response:
        """Return 200 with an empty JSON object after the revocation is committed."""
        client_id = None
        try:
            client_request = self.client_auth.read(request)
            proven = await self.client_auth.authenticate(request, client_request)
            client_id = proven.client.id
            require_query_allowed(client_request, proven)
            token = token_parameter(client_request)
            read = await self.reader.read_unexpired(token, request.at)

            await self.store.write(
                lambda tx: self._end(tx, proven, token, read, request.at),
                done_by=by_client(client_id),
            )
        except Refused as refused:
            return self.refuse(request, refused.refusal, client_id)
        # RFC 7009 leaves the body open; some clients parse every response as JSON.
        return json_response({}, 200, (("cache-control", "no-store"), *ANY_ORIGIN))

    def _end(
        self, tx: Transaction, proven: Authenticated, token: str, read: Read | None, now: Instant
    ) -> None:
        # The hint of RFC 7009 section 2.1 is not needed: the format of a token shows its kind.
        if (parts := parse_refresh_token(token)) is not None:
            self._end_family(tx, proven, parts, now)
            return
        if read is None:
            read = self.reader.find_by_reference(tx, token)
        if read is None or read.client_id != proven.client.id or read.expires_at <= now:
            return
        if self.reader.revoke(tx, read, token, now):
            values = (read.grant_id, read.token_id, read.audience)
            event = AccessTokenRevoked(read.client_id, *values)
            tx.events.add(event, now)

    def _end_family(
        self, tx: Transaction, proven: Authenticated, parts: tuple[str, str], now: Instant
    ) -> None:
        secret, grant_id = parts
        grant_state = tx.grants.find(grant_id)
        if grant_state is None or grant_state.grant.client_id != proven.client.id:
            return
        presented = fingerprint_of(self.fingerprints, secret, grant_id)
        prints = [grant_state.grant.refresh_print]
        if grant_state.previous is not None:
            prints.append(grant_state.previous.fingerprint)
        if not any(print_ is not None and same(presented, print_) for print_ in prints):
            return
        if tx.grants.revoke(grant_id, now, "client_revoked"):
            grant = grant_state.grant
            event = GrantRevoked(grant.uid, grant.client_id, grant.id, "client_revoked")
            tx.events.add(event, now)
