"""Security Event Tokens: what one says to its receiver, and its signature (RFC 8417)."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import Uid
from valetkey.authorization.signals.model import (
    CONTROL,
    SignalMessage,
    SignalStream,
    StreamProfile,
    SubjectFormat,
    TokenFacts,
)
from valetkey.authorization.tokens.client_keys import default_id_token_algorithm
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.jose import jwt
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant

TYPE = "secevent+jwt"
MEDIA_TYPE = "application/secevent+jwt"

_FACTS = msgspec.json.Decoder(TokenFacts)


class EventTokens(Struct, frozen=True):
    """Composes and signs the tokens of this server."""

    issuer: str
    keys: SigningKeyRing
    subjects: Subjects

    def claims(
        self, stream: SignalStream, client: Client, message: SignalMessage
    ) -> dict[str, object]:
        """Return the claims of a token: the same at each attempt, and never `sub` or `exp`."""
        facts = _FACTS.decode(message.facts)
        aud = stream.audience
        event = dict(facts.event)
        claims: dict[str, object] = {
            "iss": self.issuer,
            "jti": message.id,
            "iat": message.created_at,
            "aud": aud[0] if len(aud) == 1 else list(aud),
            "events": {message.kind: event},
        }
        if message.subject == CONTROL:
            # SSF sections 8.1.4.1 and 8.1.5: the stream itself.
            return claims | {"sub_id": {"format": "opaque", "id": stream.id}}
        claims["txn"] = message.event_id
        parts = {"user": self._user(stream, client, facts)}
        if facts.session_id:
            session = self.subjects.session(facts.session_id, client)
            parts["session"] = {"format": "opaque", "id": session}
        if stream.profile is StreamProfile.SSE:
            event["subject"] = parts
            return claims
        sub_id = parts["user"] if len(parts) == 1 else {"format": "complex", **parts}
        return claims | {"sub_id": sub_id}

    async def sign(self, claims: Mapping[str, object], now: Instant) -> str:
        """Return the token. Raises NoSigningKey."""
        await self.keys.refresh_each_second(now)
        algorithm = Algorithm(default_id_token_algorithm(self.keys.algorithms))
        return jwt.sign(claims, self.keys.current(now, algorithm), typ=TYPE)

    def _user(
        self, stream: SignalStream, client: Client, facts: TokenFacts
    ) -> Mapping[str, object]:
        if stream.subject_format is SubjectFormat.EMAIL and facts.email:
            return {"format": "email", "email": facts.email}
        sub = self.subjects.of_uid(Uid(facts.uid or 0), client)
        if stream.subject_format is SubjectFormat.OPAQUE:
            return {"format": "opaque", "id": sub}
        return {"format": "iss_sub", "iss": self.issuer, "sub": sub}
