"""`id_token_hint`: ID tokens sent back to name a user (OpenID Connect Core section 3.1.2.1)."""

from msgspec import Struct

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.tokens.shared_secrets import SharedSecrets
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose import jwt, mac
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused

_TYPES = ("jwt", "")
_FOR_EVER = days(366 * 100)
_REFUSED = "id_token_hint is not an ID token that this server issued to this app"


class Hint(Struct, frozen=True):
    """The user named by an ID token, as its client knows them; `session_id` is its `sid` or "".

    It shows that the client once received this ID token. It does not authenticate the sender.
    """

    subject: str
    session_id: str


class IdTokenHints(Struct, frozen=True):
    """Reads our own ID tokens for a client, including expired ones."""

    issuer: str
    keys: SigningKeyRing
    shared: SharedSecrets

    async def read(self, text: str, client: Client, now: Instant) -> Hint:
        """Return the user that the token names.

        Refused with `invalid_request` for anything other than an ID token of this server for
        `client`.
        """
        try:
            claims = await self._claims(text, client, now)
        except Refused as refused:
            found = refused.refusal
            raise Refused(
                Refusal(
                    ErrorCode.INVALID_REQUEST,
                    _REFUSED,
                    f"id_token_hint.{found.check.rpartition('.')[2]}",
                    found.expected,
                    found.received,
                )
            ) from None
        subject, session_id = claims.get("sub"), claims.get("sid", "")
        if not isinstance(subject, str) or not isinstance(session_id, str) or not subject:
            raise Refused(Refusal(ErrorCode.INVALID_REQUEST, _REFUSED, "id_token_hint.sub"))
        return Hint(subject, session_id)

    async def _claims(self, text: str, client: Client, now: Instant) -> jwt.Claims:
        if jwt.parse(text, _TYPES).header.alg == mac.ALGORITHM:
            return mac.verify_shared(
                text,
                self.shared.of(client, now),
                typ=_TYPES,
                issuer=self.issuer,
                audience=client.id,
                now=now,
                leeway=_FOR_EVER,
            )
        await self.keys.refresh(now, surely=True)
        return jwt.verify(
            text,
            self.keys.published(now),
            typ=_TYPES,
            algorithms=tuple(Algorithm),
            issuer=self.issuer,
            audience=client.id,
            now=now,
            leeway=_FOR_EVER,
        )
