"""Tokens of the admin API: which there are, another one, the end of one."""

from typing import cast

from valetkey.authorization.deeds.admin import api_tokens
from valetkey.authorization.deeds.admin.api_tokens import FreshToken, WantedToken
from valetkey.authorization.deeds.admin.permissions import Permission
from valetkey.authorization.endpoints.admin_api.operation import Call, Desk, Operation, Told
from valetkey.authorization.endpoints.admin_api.paging import (
    PAGING,
    cursor,
    limit_of,
    place_of,
)
from valetkey.authorization.endpoints.admin_api.problem import Wrong
from valetkey.authorization.endpoints.admin_api.shapes.tokens import (
    Own,
    TokenList,
    TokenMade,
    TokenWanted,
    token_shown,
)
from valetkey.authorization.storage.administration.client_search import Place
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix, fresh_id, fresh_secret


async def _own(desk: Desk, call: Call) -> Told:
    token = await desk.store.read(lambda tx: tx.api_tokens.find(call.actor.token_id))
    if token is None or call.powers.role is None:
        raise _no_such_token()
    names = sorted(call.powers.permissions)
    return Told(Own(token_shown(token, call.now), call.powers.role.value, list(names)))


async def _list(desk: Desk, call: Call) -> Told:
    limit, before = limit_of(call.query), place_of(call.query)
    found = await desk.store.scan(lambda tx: api_tokens.page(tx, call.actor, before, limit + 1))
    items = [token_shown(token, call.now) for token in found[:limit]]
    last = found[limit - 1] if len(found) > limit else None
    after = cursor(Place(last.created_at, last.id)) if last else None
    return Told(TokenList(items, after), next=after or "")


async def _make(desk: Desk, call: Call) -> Told:
    body = cast("TokenWanted", call.body)
    fresh = FreshToken(fresh_id("at", desk.random), fresh_secret(Prefix.API_TOKEN, desk.random))
    names = tuple(each.value for each in body.permissions)
    wanted = WantedToken(body.name, names, Lifetime(body.lifetime), call.actor.uid)
    key = desk.foundation.keyring.fingerprint_key
    made = await desk.store.write(
        lambda tx: api_tokens.issue(tx, call.actor, key, wanted, fresh, call.now),
        done_by=call.actor.done_by,
    )
    if isinstance(made, tuple):
        raise Wrong(made)
    return Told(TokenMade(fresh.secret.reveal(), token_shown(made, call.now)))


async def _end(desk: Desk, call: Call) -> Told:
    token_id = call.named("token_id")
    if not await desk.store.write(
        lambda tx: api_tokens.end(tx, call.actor, token_id, call.now), done_by=call.actor.done_by
    ):
        raise _no_such_token()
    return Told()


def _no_such_token() -> Refused:
    return Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such token that works", "admin.token"))


TOKENS = (
    Operation(
        "read_own_token",
        "GET",
        "/token",
        Permission.READ,
        "The token that asks, and what it may do now",
        _own,
        gives=Own,
    ),
    Operation(
        "list_tokens",
        "GET",
        "/tokens",
        Permission.READ,
        "Tokens of this API",
        _list,
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
        _make,
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
        "End a token",
        _end,
        status=204,
        refuses=(404,),
    ),
)
