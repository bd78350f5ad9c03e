"""Tokens of the admin API, as the admin API shows and takes them."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.model.account.api_token import ApiToken
from valetkey.authorization.model.account.user import LARGEST_UID
from valetkey.authorization.operations.records import Moment, Name, Seconds
from valetkey.kernel.moment import Instant


class TokenShown(msgspec.Struct, frozen=True):
    """A token, without the token itself."""

    id: str
    name: str
    uid: int
    permissions: list[str]
    created_at: Moment
    expires_at: Moment
    last_used_at: Moment | None
    ended_at: Moment | None
    works: bool


class TokenList(msgspec.Struct, frozen=True):
    """Tokens, newest first."""

    items: list[TokenShown]
    next: str | None


class TokenWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new token. It never allows more than the token that asks for it."""

    name: Annotated[Name, msgspec.Meta(description="What it is for.")]
    permissions: Annotated[
        list[Permission],
        msgspec.Meta(min_length=1, max_length=7, description="What it may do, once for each."),
    ]
    lifetime: Seconds


class UserTokenWanted(TokenWanted, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A new token in the name of a user with a role."""

    uid: Annotated[
        int,
        msgspec.Meta(
            ge=1, le=LARGEST_UID, description="The user in whose name it works; needs a role."
        ),
    ]


class TokenMade(msgspec.Struct, frozen=True):
    """A new token, shown this once."""

    token: str
    record: TokenShown


class Own(msgspec.Struct, frozen=True):
    """The token that asks, and what it may do at this moment."""

    record: TokenShown
    role: str
    permissions: list[str]


def token_shown(token: ApiToken, now: Instant) -> TokenShown:
    """As the API shows it."""
    return TokenShown(
        token.id,
        token.name,
        token.uid,
        sorted(token.permissions),
        token.created_at,
        token.expires_at,
        token.last_used_at,
        token.ended_at,
        token.is_live(now),
    )
