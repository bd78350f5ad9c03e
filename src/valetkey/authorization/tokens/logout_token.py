"""Logout tokens: sent to clients when a session ends (Back-Channel Logout 1.0 section 2.4)."""

from msgspec import Struct

from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.tokens.id_token import Signs
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.moment import Instant, later, minutes

TYPE = "logout+jwt"
EVENT = "http://schemas.openid.net/event/backchannel-logout"
"""The member of `events` that makes a JWT a logout token."""

_LIFETIME = minutes(2)


class LogoutTokens(Struct, frozen=True):
    """Issues logout tokens."""

    issuer: str
    signer: Signs
    subjects: Subjects

    async def mint(
        self, user: User, client: Client, session_id: str, now: Instant, *, token_id: str
    ) -> str:
        """Return the logout token, signed and encrypted like this client's ID tokens.

        `token_id` is the same at every delivery attempt. Raises Refused if there is no key for the
        client's algorithm.
        """
        registered = client.openid
        # Never a nonce: an ID token could otherwise be forged from it (section 2.4).
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
            algorithm=registered.id_token_signed_response_alg or None,
            encryption_alg=registered.id_token_encrypted_response_alg,
            encryption_enc=registered.id_token_encrypted_response_enc,
        )
