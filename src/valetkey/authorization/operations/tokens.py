"""Operations on the tokens of the admin API: list, make, end."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin import tokens
from valetkey.authorization.actions.admin.permissions import Permission, UserActor
from valetkey.authorization.actions.admin.tokens import Faults, FreshToken, Program, WantedToken
from valetkey.authorization.model.event.administration import ApiTokenEnded, ApiTokenIssued
from valetkey.authorization.model.user import LARGEST_UID, ApiToken, Uid
from valetkey.authorization.operations.operation import (
    PAGING,
    Button,
    Call,
    Command,
    Moment,
    Name,
    Operation,
    Option,
    Result,
    Seconds,
    cursor,
    limit_of,
    on,
    place_of,
    reads,
    unchecked_write,
)
from valetkey.authorization.storage.search import TimeCursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable


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
    """Input for a new token. Its permissions are a subset of those of the calling token."""

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
            ge=1, le=LARGEST_UID, description="The user on whose behalf it acts; needs a role."
        ),
    ]


class NewToken(msgspec.Struct, frozen=True):
    """A new token, shown once."""

    token: str
    record: TokenShown


class CurrentToken(msgspec.Struct, frozen=True):
    """The calling token and its current permissions."""

    record: TokenShown
    role: str
    permissions: list[str]


def token_shown(token: ApiToken, now: Instant) -> TokenShown:
    """Return the record of a token in the API."""
    return converted(TokenShown, token, works=token.is_live(now))


def read_own_token(tx: Transaction, call: Call) -> CurrentToken:
    """Read the calling token, and its current permissions."""
    powers = call.actor.permissions_in(tx)
    own = call.actor.token_id if isinstance(call.actor, Program) else ""
    token = tx.api_tokens.find(own)
    if token is None or powers.role is None:
        raise _no_such_token()
    return CurrentToken(token_shown(token, call.now), powers.role.value, sorted(powers.permissions))


def list_tokens(tx: Transaction, call: Call) -> Result:
    """List the tokens of the admin API, newest first."""
    limit, before = limit_of(call.query), place_of(call.query)
    page = tokens.page(tx, call.actor, before, limit + 1)
    items = [token_shown(token, call.now) for token in page[:limit]]
    last = page[limit - 1] if len(page) > limit else None
    after = cursor(TimeCursor(last.created_at, last.id)) if last else None
    return Result(TokenList(items, after), next=after or "")


def make_token(tx: Transaction, call: Call) -> NewToken | Faults:
    """Issue a token for the user who calls, in the console or with another token."""
    if not isinstance(call.actor, Program | UserActor):
        raise _no_such_token()
    return _issue(tx, call, call.input(TokenWanted), call.actor.uid)


def make_user_token(tx: Transaction, call: Call) -> NewToken | Faults:
    """Issue a token in the name of a user with a role."""
    body = call.input(UserTokenWanted)
    return _issue(tx, call, body, Uid(body.uid))


def _issue(tx: Transaction, call: Call, body: TokenWanted, maker: Uid) -> NewToken | Faults:
    fresh = FreshToken(call.new_id("at"), call.new_secret(Prefix.API_TOKEN))
    names = tuple(permission.value for permission in body.permissions)
    token = WantedToken(body.name, names, Lifetime(body.lifetime), maker)
    key = call.services.fingerprints
    made = tokens.issue(tx, call.actor, key, token, fresh, call.now)
    if isinstance(made, tuple):
        return made
    return NewToken(fresh.secret.reveal(), token_shown(made, call.now))


def end_token(tx: Transaction, call: Call) -> None:
    """End a token and those created with it. Refused (not found) if it is not valid any more."""
    if not tokens.end(tx, call.actor, call.named("token_id"), call.now):
        raise _no_such_token()


def _no_such_token() -> Refused:
    return Refused.because(
        ErrorCode.NOT_FOUND, "this token does not exist or has ended", "admin.token"
    )


MAKE_USER_TOKEN = Operation(
    "create_user_token",
    "POST",
    "/tokens",
    Permission.KEYS,
    "Create a token on behalf of a user",
    unchecked_write(make_user_token),
    input=UserTokenWanted,
    output=NewToken,
    event=ApiTokenIssued,
    commands=(
        Command(
            "admin-token create",
            example='--for ada --name "Nightly report" --permission read',
            options=(
                Option(
                    "uid", "--for", "The user on whose behalf it acts; needs a role.", user=True
                ),
                Option("lifetime", "--days", "For how many days.", unit=86_400, default=90),
            ),
            done="{token}",
            note="Good until {expires_at}. It is shown only now.",
        ),
    ),
)

MAKE_TOKEN = Operation(
    "create_token",
    "POST",
    "/tokens",
    Permission.KEYS,
    "Create a token; it is shown once",
    unchecked_write(make_token),
    description="It allows no more than the token that asks, and ends no later.",
    input=TokenWanted,
    output=NewToken,
    status=201,
    error_statuses=(409,),
    event=ApiTokenIssued,
    commands=(),
)

END_TOKEN = Operation(
    "delete_token",
    "DELETE",
    "/tokens/{token_id}",
    Permission.KEYS,
    "Revoke an API token",
    unchecked_write(end_token),
    status=204,
    event=ApiTokenEnded,
    buttons=(
        Button(
            "end",
            translatable("Revoke token"),
            translatable(
                "Programs that use this token stop working immediately. This cannot be undone."
            ),
            translatable("Token revoked."),
            danger=True,
            irreversible=True,
            shown_for=on(TokenShown, lambda it: it.works),
        ),
    ),
    commands=(
        Command(
            "admin-token end",
            help="Programs that use it stop working at once.",
            confirms=False,
            done="It has ended.",
            missing="this token does not exist or has ended; see: valetkey admin-token list",
        ),
    ),
)

TOKENS = (
    Operation(
        "read_own_token",
        "GET",
        "/token",
        Permission.READ,
        "The token that asks, and what it may do now",
        reads(read_own_token),
        output=CurrentToken,
        commands=(),
    ),
    Operation(
        "list_tokens",
        "GET",
        "/tokens",
        Permission.READ,
        "List API tokens",
        reads(list_tokens),
        output=TokenList,
        query=PAGING,
        returns_list=True,
        commands=(
            Command(
                columns=(
                    ("ID", "id"),
                    ("NAME", "name"),
                    ("UID", "uid"),
                    ("PERMISSIONS", "permissions"),
                    ("EXPIRES", "expires_at"),
                    ("LAST USED", "last_used_at"),
                    ("ENDED", "ended_at"),
                    ("WORKS", "works"),
                ),
                empty="There are none. Next: valetkey admin-token create --help",
            ),
        ),
    ),
    MAKE_TOKEN,
    END_TOKEN,
)
