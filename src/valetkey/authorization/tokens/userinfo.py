"""Userinfo: what a token lets its bearer know of its person (OpenID Connect Core section 5.3)."""

from dataclasses import dataclass
from typing import NoReturn

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.claims import (
    OPENID,
    ClaimsRequest,
    claims_of_scope,
    user_claims,
)
from valetkey.authorization.protocol.liveness import require_live
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.authorization.tokens.subject import Subjects
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused

_PERSON = "an access token that a person allowed, with the scope openid"


@dataclass(frozen=True, slots=True)
class Told:
    """What is told, and the client that it is told to."""

    client: Client
    claims: dict[str, object]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """Knows what a bearer may know."""

    reader: AccessTokenReader
    subjects: Subjects

    def tell(self, tx: Transaction, token: str, read: Read | None, now: Instant) -> Told:
        """The claims that the token's scope and its grant's `claims` parameter ask for.

        `read` is what the reader made of a token by value. Refused with `invalid_token` unless
        everything behind the token lives, with `insufficient_scope` for a token without `openid`
        and for a client's own.
        """
        found = self.reader.find_live(tx, token, read, now)
        if found is None or require_live(found[1], now) is not None:
            _refuse("another" if found is None else found[1].ended(now))
        live = found[0]
        if live.uid is None or OPENID not in live.scope:
            raise Refused(
                Refusal(
                    ErrorCode.INSUFFICIENT_SCOPE,
                    "userinfo needs an access token with the scope openid",
                    "userinfo.scope",
                    _PERSON,
                    str(live.scope),
                )
            )
        user, client = tx.users.find(Uid(live.uid)), tx.clients.find(live.client_id)
        if user is None or client is None:
            _refuse("a token of nobody")
        grant = None if live.grant_id is None else tx.grants.find(live.grant_id)
        asked = ClaimsRequest.parse("" if grant is None else grant.grant.claims)
        names = {*claims_of_scope(live.scope), *asked.userinfo}
        return Told(client, {"sub": self.subjects.of(user, client)} | user_claims(user, names))


def _refuse(received: str) -> NoReturn:
    raise Refused(
        Refusal(
            ErrorCode.INVALID_TOKEN,
            "the access token expired, was revoked, or is not one of ours",
            "userinfo.token",
            _PERSON,
            received,
        )
    )
