"""Apply the declared attributes of accounts, claims of tokens, and APIs."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from valetkey.authorization.actions.apis import (
    ApiMetadata,
    ApiRegistrar,
    changed_fields,
    metadata_of,
)
from valetkey.authorization.actions.attributes import declare_attribute
from valetkey.authorization.actions.claims import declare_claim
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    Step,
    changed_or_kept,
    invalid_entry,
)
from valetkey.authorization.model.account.user import Attribute
from valetkey.authorization.model.register.claim import ClaimLocation, DeclaredClaim
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.url import canonical


def declare(tx: Transaction, wanted: DeclaredEntry, now: Instant) -> Step:
    """Declare or change an attribute. Raises InvalidEntry if the rules do not allow it."""
    given = wanted.given
    attribute = Attribute(
        wanted.text("name"),
        wanted.text("label"),
        cast("Mapping[str, object]", given.get("schema", {})),
        given.get("editable") is True,
    )
    is_new = all(each.name != attribute.name for each in tx.declarations.attributes())
    changed = declare_attribute(tx, attribute, now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    done = Action.CREATE if is_new else Action.CHANGE if changed else Action.KEEP
    owned = Declared(AppliedKind.ATTRIBUTE, attribute.name, is_new=is_new)
    return Step(done, "attribute", attribute.name, declares=(owned,))


def declare_claims(
    tx: Transaction, wanted: DeclaredEntry, settings: Settings, now: Instant
) -> Step:
    """Declare or change a claim. Raises InvalidEntry if the rules do not allow it."""
    given = wanted.given
    places = cast("Sequence[str]", given.get("in", ()))
    if wrong := [each for each in places if each not in set(ClaimLocation)]:
        fault = MetadataError("in", f"{', '.join(ClaimLocation)}; not {wrong[0][:40]}")
        raise invalid_entry(wanted, [fault])
    claim = DeclaredClaim(
        wanted.text("name"),
        wanted.text("from"),
        tuple(place for place in ClaimLocation if place in places),
        wanted.text("scope"),
        frozenset(cast("Sequence[str]", given.get("clients", ()))),
        frozenset(cast("Sequence[str]", given.get("apis", ()))),
    )
    is_new = all(each.name != claim.name for each in tx.declarations.claims())
    kept = settings.federation.kept_claims
    changed = declare_claim(tx, claim, settings.audience, now, kept)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    done = Action.CREATE if is_new else Action.CHANGE if changed else Action.KEEP
    owned = Declared(AppliedKind.CLAIM, claim.name, is_new=is_new)
    return Step(done, "claim", claim.name, declares=(owned,))


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
    changed = keeper.change(tx, there, replace(metadata_of(there), **said), now)
    if isinstance(changed, tuple):
        raise invalid_entry(wanted, changed)
    names = list(changed_fields(there, changed))
    if "disabled" in wanted.given:
        disable = wanted.given["disabled"] is True
        if (keeper.disable if disable else keeper.enable)(tx, changed, now):
            names.append("disabled")
    owned = Declared(AppliedKind.API, changed.id)
    return changed_or_kept("api", changed.identifier, names, owned)
