"""Apply the APIs of the file, each identified by its identifier."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from typing import Any, cast

from valetkey.authorization.apis.operations import ANY, registrar_of
from valetkey.authorization.apis.rules import ApiRegistrar, changed_fields
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    DeclaredKind,
    InvalidDeclaredValue,
    Reader,
    Step,
    changed_or_kept,
    invalid_entry,
    read_boolean,
    read_lifetime,
    read_text,
    read_texts,
)
from valetkey.authorization.model.api import API_FIELDS, Api, ApiMetadata
from valetkey.authorization.model.client import AccessTokenFormat
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id
from valetkey.kernel.url import canonical

_KIND = "api"
_PAGE = 500
_CHANNEL = "cli"


def _choice(choices: type[StrEnum], value: object) -> StrEnum:
    text = read_text(value)
    if text not in set(choices):
        raise InvalidDeclaredValue(f"one of: {', '.join(choices)}")
    return choices(text)


def _any_or_texts(value: object) -> frozenset[str] | None:
    if value == ANY:
        return None
    try:
        return frozenset(read_texts(value))
    except InvalidDeclaredValue:
        raise InvalidDeclaredValue('write "any", or a list of client ids') from None


def _sentences(value: object) -> Mapping[str, str]:
    if not isinstance(value, dict):
        raise InvalidDeclaredValue('write a table, such as { "files:read" = "see your files" }')
    return {name: read_text(members) for name, members in cast("dict[str, object]", value).items()}


_READERS: Mapping[object, Reader] = {
    str: read_text,
    bool: read_boolean,
    Lifetime | None: read_lifetime,
    tuple[str, ...]: read_texts,
    frozenset[str] | None: _any_or_texts,
    Mapping[str, str]: _sentences,
    AccessTokenFormat | None: partial(_choice, AccessTokenFormat),
    Algorithm: partial(_choice, Algorithm),
}


def _prepare(services: Services, entry: DeclaredEntry) -> Callable[[Transaction, Instant], Step]:
    keeper, api_id = registrar_of(services, _CHANNEL), fresh_id("api", services.random)
    return lambda tx, now: _apply(tx, keeper, entry, api_id, now)


def _apply(
    tx: Transaction, keeper: ApiRegistrar, entry: DeclaredEntry, api_id: str, now: Instant
) -> Step:
    values: dict[str, Any] = {**entry.values}
    disable = values.pop("disabled", None)
    there = tx.apis.find_by_key(canonical(entry.text("identifier")))
    if there is None:
        made = keeper.register(tx, ApiMetadata(**values), now, api_id=api_id)
        if isinstance(made, tuple):
            raise invalid_entry(entry, made)
        if disable is True:
            keeper.disable(tx, made, now)
        owned = Declared(_KIND, made.id, is_new=True)
        return Step(Action.CREATE, _KIND, made.identifier, declares=(owned,))
    changed = keeper.change(tx, there, replace(there.metadata, **values), now)
    if isinstance(changed, tuple):
        raise invalid_entry(entry, changed)
    names = list(changed_fields(there, changed))
    if disable is not None and (keeper.disable if disable else keeper.enable)(tx, changed, now):
        names.append("disabled")
    return changed_or_kept(_KIND, changed.identifier, names, Declared(_KIND, changed.id))


def _switch(
    services: Services, tx: Transaction, api_id: str, pruned_at: Instant | None, now: Instant
) -> str | None:
    api = tx.apis.find_to_change(api_id)
    if api is None or api.disabled_at != pruned_at:
        return None
    keeper = registrar_of(services, _CHANNEL)
    done = (keeper.disable if pruned_at is None else keeper.enable)(tx, api, now)
    return api.identifier if done else None


def _exported(tx: Transaction) -> Iterator[Mapping[str, object]]:
    last = ""
    while apis := tx.apis.page(last, _PAGE):
        yield from map(_table, apis)
        last = canonical(apis[-1].identifier)


def _table(api: Api) -> Mapping[str, object]:
    lifetime = api.access_token_lifetime
    table = {
        **api.metadata.values(),
        "access_token_lifetime": None if lifetime is None else f"{lifetime}s",
        "clients": ANY if api.clients is None else sorted(api.clients),
    }
    return table if api.disabled_at is None else {**table, "disabled": True}


DECLARED = DeclaredKind(
    name=_KIND,
    table="apis",
    readers={
        **{name: _READERS[field.type] for name, field in API_FIELDS.items()},
        "disabled": read_boolean,
    },
    key="identifier",
    spelled=canonical,
    example="https://…",
    secret_key="",
    hold=lambda tx: tx.apis.hold_all(),
    prepare=_prepare,
    exported=_exported,
    switch=_switch,
    before_users=True,
)
