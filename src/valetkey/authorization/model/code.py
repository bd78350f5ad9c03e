"""Authorization codes: the payload of their voucher (RFC 6749 section 4.1)."""

from dataclasses import dataclass

import msgspec

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.api import ApiGeneration
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


@dataclass(frozen=True, slots=True)
class CodePayload:
    """What a user allowed, until the client redeems the code.

    `redirect_uri` is where the code was sent; `redirect_uri_given` says whether the request named
    it, because then the token request must name the same (RFC 6749 section 4.1.3). `methods` are
    the user's authentication methods, `claims` the encoded `claims` parameter of the request.
    `apis` are the requested APIs, in the order of the request; empty for the default API alone.
    """

    uid: Uid
    scope: str
    redirect_uri: str
    redirect_uri_given: bool
    code_challenge: str
    nonce: str
    session_id: str
    auth_time: Instant
    methods: tuple[str, ...] = ()
    claims: str = ""
    client_generation: int = 0
    user_generation: int = 0
    consent_id: str = ""
    apis: tuple[ApiGeneration, ...] = ()

    @property
    def granted(self) -> Scope:
        """What the user allowed, as `Api.qualified` names it."""
        return Scope(tuple(self.scope.split(" ")) if self.scope else ())

    def encode(self) -> str:
        """Encode for the voucher."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "CodePayload":
        """Decode what `encode` returned."""
        return msgspec.json.decode(text, type=CodePayload)
