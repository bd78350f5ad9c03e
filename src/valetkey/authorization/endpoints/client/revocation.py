"""POST /oauth/revoke: token revocation (RFC 7009)."""

from msgspec import Struct

from valetkey.authorization.endpoints.client.request import (
    ClientRefusal,
    ClientRequestAuthentication,
    require_query_allowed,
    token_parameter,
)
from valetkey.authorization.grant_types.family import fingerprint_of, parse_refresh_token
from valetkey.authorization.model.event.event import by_client
from valetkey.authorization.model.event.grants import AccessTokenRevoked, GrantRevoked
from valetkey.authorization.protocol.client_authentication.method import Authenticated
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.secret import FingerprintKey, same
from valetkey.web.exchange import Request, Response, json_response
from valetkey.web.security_headers import ANY_ORIGIN


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
            asked = self.client_auth.read(request)
            proven = await self.client_auth.authenticate(request, asked)
            client_id = proven.client.id
            require_query_allowed(asked, proven)
            token = token_parameter(asked)
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
            said = (read.grant_id, read.token_id, read.audience)
            event = AccessTokenRevoked(read.client_id, *said)
            tx.events.add(event, now)

    def _end_family(
        self, tx: Transaction, proven: Authenticated, parts: tuple[str, str], now: Instant
    ) -> None:
        secret, grant_id = parts
        found = tx.grants.find(grant_id)
        if found is None or found.grant.client_id != proven.client.id:
            return
        presented = fingerprint_of(self.fingerprints, secret, grant_id)
        known = [found.grant.refresh_print]
        if found.previous is not None:
            known.append(found.previous.fingerprint)
        if not any(print_ is not None and same(presented, print_) for print_ in known):
            return
        if tx.grants.revoke(grant_id, now, "client_revoked"):
            grant = found.grant
            event = GrantRevoked(grant.uid, grant.client_id, grant.id, "client_revoked")
            tx.events.add(event, now)
