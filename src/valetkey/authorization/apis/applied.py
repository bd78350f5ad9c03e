"""Apply one API of the file, identified by its identifier."""

from typing import Any, cast

from msgspec import Struct

from valetkey.authorization.actions.apis import ApiRegistrar, changed_fields
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.model.register.api import ApiMetadata
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.url import canonical


class WantedApi(Struct, frozen=True):
    """An API of the file, with an id to use if it is new."""

    wanted: DeclaredEntry
    fresh_id: str


def apply_api(tx: Transaction, keeper: ApiRegistrar, api: WantedApi, now: Instant) -> Step:
    """Declare or change the API. Raises InvalidEntry if the rules do not allow it."""
    wanted = api.wanted
    given = {name: value for name, value in wanted.given.items() if name != "disabled"}
    said = cast("dict[str, Any]", given)
    there = tx.apis.find_by_key(canonical(wanted.text("identifier")))
    if there is None:
        made = keeper.register(tx, ApiMetadata(**said), now, api_id=api.fresh_id)
        if isinstance(made, tuple):
            raise invalid_entry(wanted, made)
        if wanted.given.get("disabled") is True:
            keeper.disable(tx, made, now)
        owned = Declared(AppliedKind.API, made.id, is_new=True)
        return Step(Action.CREATE, "api", made.identifier, declares=(owned,))
    changed = keeper.change(tx, there, replace(there.metadata, **said), now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    names = list(changed_fields(there, changed))
    if "disabled" in wanted.given:
        disable = wanted.given["disabled"] is True
        if (keeper.disable if disable else keeper.enable)(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.API, changed.id)
    return changed_or_kept("api", changed.identifier, names, owned)
