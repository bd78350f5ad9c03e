"""Userinfo: the claims that a token gives access to (OpenID Connect Core section 5.3)."""

from collections.abc import Mapping, Sequence
from typing import NoReturn

from msgspec import Struct

from valetkey.authorization.model.api import NO_CLAIMS, ExtraClaim
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Liveness, require_live
from valetkey.authorization.model.user import Uid, User
from valetkey.authorization.protocol.claims import (
    GROUPS,
    OPENID,
    ClaimsRequest,
    claims_of_scope,
    user_claims,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.claims import TokenClaims
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.authorization.tokens.read import AccessTokenReader, Read
from valetkey.kernel.moment import Instant, is_live
from valetkey.kernel.refusal import ErrorCode, Refused

_PERSON = "an access token of a user, with the scope openid"


class UserInfoGrant(Struct, frozen=True):
    """The user a token is about, its client, and the claims that the client may read."""

    user: User
    client_id: str
    names: frozenset[str]
    liveness: Liveness
    issued_at: Instant
    expires_at: Instant
    stored: Mapping[str, object]
    is_complete: bool

    def holds(self, now: Instant) -> bool:
        """Return whether it has not expired since it was read."""
        return (
            is_live(self.issued_at, self.expires_at, now)
            and require_live(self.liveness, now) is None
        )


class UserInfo(Struct, frozen=True):
    """Answers userinfo requests."""

    reader: AccessTokenReader
    subjects: Subjects
    token_claims: TokenClaims

    def claims(self, grant: UserInfoGrant, client: Client) -> dict[str, object]:
        """Return the claims for `client`, the client that `told` names."""
        claims = {"sub": self.subjects.subject_of(grant.user, client)} | user_claims(
            grant.user, grant.names
        )
        return claims | {**grant.stored}

    def takes_one_statement(self, read: Read | None, declared: Sequence[ExtraClaim]) -> bool:
        """Return whether `tell` with these declared claims sends one statement for this JWT.

        The grant may still request more: then `UserInfoGrant.is_complete` is False.
        """
        return (
            read is not None
            and read.grant_id is not None
            and self.token_claims.are_stored_with_user(declared, read.client_id, read.scope)
        )

    def requested_claims(
        self,
        tx: Transaction,
        token: str,
        read: Read | None,
        now: Instant,
        declared: Sequence[ExtraClaim] | None = None,
    ) -> UserInfoGrant:
        """Determine what the token's scope and its grant's `claims` parameter request.

        `read` is the content of a JWT. Refused with `invalid_token` unless everything the token
        depends on is live, and with `insufficient_scope` for a token without `openid` or a client's
        own token. With `declared`, the declared claims, without those that need another statement.
        """
        state = self.reader.find_live(tx, token, read, now)
        if state is None or require_live(state.liveness, now) is not None:
            if state is None:
                refuse_token("another")
            refuse_token(state.liveness.ended(now), about=state.read.client_id)
        live = state.read
        if live.uid is None or OPENID not in live.scope:
            raise Refused.because(
                ErrorCode.INSUFFICIENT_SCOPE,
                "userinfo needs an access token with the scope openid",
                "userinfo.scope",
                _PERSON,
                str(live.scope),
                about=live.client_id,
            )
        user = state.user or tx.users.find(Uid(live.uid))
        if user is None:
            refuse_token("a token without a user")
        grant = state.grant
        if grant is None and live.grant_id is not None:
            looked_up = tx.grants.find(live.grant_id)
            grant = None if looked_up is None else looked_up.grant
        requested = ClaimsRequest.parse("" if grant is None else grant.claims)
        names = frozenset((*claims_of_scope(live.scope), *requested.userinfo))
        is_complete = declared is None or GROUPS not in names
        stored = NO_CLAIMS
        if is_complete:
            stored = self.token_claims.of_userinfo(
                tx, user, live.client_id, live.scope, names, declared
            )
        return UserInfoGrant(
            user,
            live.client_id,
            names,
            state.liveness,
            live.issued_at,
            live.expires_at,
            stored,
            is_complete,
        )


def refuse_token(received: str, about: str = "") -> NoReturn:
    """Refuse with `invalid_token`; `received` and the client go into the decision record."""
    raise Refused.because(
        ErrorCode.INVALID_TOKEN,
        "the access token expired, was revoked, or is not one of ours",
        "userinfo.token",
        _PERSON,
        received,
        about=about,
    )
