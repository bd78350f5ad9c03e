"""GET and POST /oauth/userinfo: claims about the user of a token (Core section 5.3)."""

from collections.abc import Mapping
from dataclasses import dataclass

from valetkey.authorization.client_authentication.directory import ClientDirectory
from valetkey.authorization.endpoints.openid.bearer import read_token
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.answer_cache import AnswerCache
from valetkey.authorization.tokens.id_token import Signs
from valetkey.authorization.tokens.userinfo import UserInfo, UserInfoGrant, refuse_token
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Pairs, Request, Response, json_response

ANY_ORIGIN: Pairs = (
    ("access-control-allow-origin", "*"),
    ("access-control-expose-headers", "www-authenticate"),
)
"""Any origin may read the response: it requires a token and ignores cookies."""

_NO_STORE: Pairs = (("cache-control", "no-store"), *ANY_ORIGIN)
_JWT = ("content-type", "application/jwt")


@dataclass(frozen=True, slots=True)
class UserInfoEndpoint:
    """Answers with JSON, or with a JWT if the client registered for one."""

    store: Store
    directory: ClientDirectory
    userinfo: UserInfo
    signer: Signs
    issuer: str
    known: AnswerCache[UserInfoGrant]

    async def __call__(self, request: Request) -> Response:
        """Return the claims. Raises Refused."""
        told = await self._told(read_token(request), request.at)
        client = await self.directory.find(told.client_id)
        if client is None:
            refuse_token("a token of no client")
        claims, registered = self.userinfo.claims(told, client), client.openid
        if registered.userinfo_signed_response_alg or registered.userinfo_encrypted_response_alg:
            return await self._protected(claims, client, request.at)
        return json_response(claims, 200, _NO_STORE)

    async def _told(self, token: str, now: Instant) -> UserInfoGrant:
        known = await self.known.find(token, now)
        number = self.known.number
        if known is not None and known.holds(now):
            return known
        read = await self.userinfo.reader.read_by_value(token, now)
        told = None
        await self.directory.compare()
        claims = self.userinfo.token_claims
        declared = await claims.as_of(self.directory.revision)
        if self.userinfo.takes_one_statement(read, declared):
            told = await self.store.read_one(
                lambda tx: self.userinfo.tell(tx, token, read, now, declared)
            )
        if told is None or not told.is_complete:
            told = await claims.supply(
                lambda: self.store.read(lambda tx: self.userinfo.tell(tx, token, read, now))
            )
        self.known.keep(token, number, told, now)
        return told

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
