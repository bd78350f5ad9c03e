"""Operations on the tokens of the admin API: list, make, end."""

from valetkey.authorization.actions.admin import api_tokens
from valetkey.authorization.actions.admin.api_tokens import Faults, FreshToken, Program, WantedToken
from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.operations.operation import (
    Call,
    Operation,
    Result,
    reads,
    unchecked_write,
    writes,
)
from valetkey.authorization.operations.paging import (
    PAGING,
    cursor,
    limit_of,
    place_of,
)
from valetkey.authorization.operations.token_records import (
    Own,
    TokenList,
    TokenMade,
    TokenWanted,
    token_shown,
)
from valetkey.authorization.storage.administration.client_search import Cursor
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix


def read_own_token(tx: Transaction, call: Call) -> Own:
    """Read the token that calls, and what it may do now."""
    powers = call.actor.powers(tx)
    own = call.actor.token_id if isinstance(call.actor, Program) else ""
    token = tx.api_tokens.find(own)
    if token is None or powers.role is None:
        raise _no_such_token()
    return Own(token_shown(token, call.now), powers.role.value, sorted(powers.permissions))


def list_tokens(tx: Transaction, call: Call) -> Result:
    """List the tokens of the admin API, newest first."""
    limit, before = limit_of(call.query), place_of(call.query)
    found = api_tokens.page(tx, call.actor, before, limit + 1)
    items = [token_shown(token, call.now) for token in found[:limit]]
    last = found[limit - 1] if len(found) > limit else None
    after = cursor(Cursor(last.created_at, last.id)) if last else None
    return Result(TokenList(items, after), next=after or "")


def make_token(tx: Transaction, call: Call) -> TokenMade | Faults:
    """Issue another token for the user whose token calls."""
    body = call.input(TokenWanted)
    if not isinstance(call.actor, Program):
        raise _no_such_token()
    fresh = FreshToken(call.new_id("at"), call.new_secret(Prefix.API_TOKEN))
    names = tuple(each.value for each in body.permissions)
    wanted = WantedToken(body.name, names, Lifetime(body.lifetime), call.actor.uid)
    key = call.services.fingerprints
    made = api_tokens.issue(tx, call.actor, key, wanted, fresh, call.now)
    if isinstance(made, tuple):
        return made
    return TokenMade(fresh.secret.reveal(), token_shown(made, call.now))


def end_token(tx: Transaction, call: Call) -> None:
    """End a token. Refused (not found) where it does not work any more."""
    if not api_tokens.end(tx, call.actor, call.named("token_id"), call.now):
        raise _no_such_token()


def _no_such_token() -> Refused:
    return Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such token that works", "admin.token"))


TOKENS = (
    Operation(
        "read_own_token",
        "GET",
        "/token",
        Permission.READ,
        "The token that asks, and what it may do now",
        reads(read_own_token),
        gives=Own,
    ),
    Operation(
        "list_tokens",
        "GET",
        "/tokens",
        Permission.READ,
        "Tokens of this API",
        reads(list_tokens),
        gives=TokenList,
        query=PAGING,
        lists=True,
    ),
    Operation(
        "make_token",
        "POST",
        "/tokens",
        Permission.KEYS,
        "Another token, shown this once",
        unchecked_write(make_token),
        description="It allows no more than the token that asks, and ends no later.",
        takes=TokenWanted,
        gives=TokenMade,
        status=201,
        refuses=(409,),
    ),
    Operation(
        "end_token",
        "DELETE",
        "/tokens/{token_id}",
        Permission.KEYS,
        "Revoke token",
        writes(end_token),
        status=204,
        refuses=(404,),
    ),
)
