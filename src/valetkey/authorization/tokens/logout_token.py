"""Logout tokens: what an app is told of a session's end (Back-Channel Logout 1.0 section 2.4)."""

from dataclasses import dataclass

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.tokens.id_token import Signs
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.moment import Instant, later, minutes

TYPE = "logout+jwt"
EVENT = "http://schemas.openid.net/event/backchannel-logout"
"""The member of `events` that makes a JWT a logout token."""

_LIFETIME = minutes(2)


@dataclass(frozen=True, slots=True)
class LogoutTokens:
    """Makes them."""

    issuer: str
    signer: Signs
    subjects: Subjects

    async def mint(
        self, user: User, client: Client, session_id: str, now: Instant, *, token_id: str
    ) -> str:
        """The logout token, signed and encrypted as this client's ID tokens are.

        `token_id` is the same whenever the same is told again. Raises Refused where the client's
        algorithm has no key.
        """
        registered = client.openid
        # Never a nonce: nobody may take this for an ID token.
        claims: dict[str, object] = {
            "iss": self.issuer,
            "sub": self.subjects.of(user, client),
            "aud": client.id,
            "iat": now,
            "exp": later(now, _LIFETIME),
            "jti": token_id,
            "sid": self.subjects.session(session_id, client),
            "events": {EVENT: {}},
        }
        return await self.signer.sign(
            claims,
            client,
            now,
            typ=TYPE,
            algorithm=registered.id_token_signed_response_alg,
            encryption_alg=registered.id_token_encrypted_response_alg,
            encryption_enc=registered.id_token_encrypted_response_enc,
        )
