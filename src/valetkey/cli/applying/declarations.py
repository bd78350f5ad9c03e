"""Apply the declared attributes of accounts and claims of tokens."""

from collections.abc import Mapping, Sequence
from typing import cast

from valetkey.authorization.actions.attributes import declare_attribute
from valetkey.authorization.actions.claims import declare_claim
from valetkey.authorization.model.account.user import Attribute
from valetkey.authorization.model.register.claim import ClaimLocation, DeclaredClaim
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.register.applied import AppliedKind
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying.file import DeclaredEntry
from valetkey.cli.applying.step import Action, Declared, Step, invalid_entry
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant


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
    done = Action.MAKE if is_new else Action.CHANGE if changed else Action.KEEP
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
    done = Action.MAKE if is_new else Action.CHANGE if changed else Action.KEEP
    owned = Declared(AppliedKind.CLAIM, claim.name, is_new=is_new)
    return Step(done, "claim", claim.name, declares=(owned,))
