"""Apply the declared attributes of accounts and claims of tokens, identified by their names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    DeclaredKind,
    Step,
    invalid_entry,
    read_boolean,
    read_table,
    read_text,
    read_texts,
)
from valetkey.authorization.claims.model import Declarations, DeclaredClaim
from valetkey.authorization.claims.rules import (
    declare_attribute,
    declare_claim,
    remove_attribute,
    remove_claim,
)
from valetkey.authorization.model.api import ClaimLocation
from valetkey.authorization.model.user import Attribute
from valetkey.authorization.operations.operation import Services
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant

_Faults = tuple[MetadataError, ...]


def _attribute(services: Services, entry: DeclaredEntry) -> Callable[[Transaction, Instant], Step]:
    attribute = Attribute(
        entry.text("name"),
        entry.text("label"),
        cast("Mapping[str, object]", entry.values.get("schema", {})),
        entry.values.get("editable") is True,
    )

    def apply(tx: Transaction, now: Instant) -> Step:
        names = [declaration.name for declaration in Declarations.of(tx).attributes()]
        return _step("attribute", entry, names, declare_attribute(tx, attribute, now))

    return apply


def _claim(services: Services, entry: DeclaredEntry) -> Callable[[Transaction, Instant], Step]:
    settings, values = services.settings, entry.values
    places = cast("Sequence[str]", values.get("in", ()))
    wrong = [location for location in places if location not in set(ClaimLocation)]
    claim = DeclaredClaim(
        entry.text("name"),
        entry.text("from"),
        tuple(location for location in ClaimLocation if location in places),
        entry.text("scope"),
        frozenset(cast("Sequence[str]", values.get("clients", ()))),
        frozenset(cast("Sequence[str]", values.get("apis", ()))),
    )

    def apply(tx: Transaction, now: Instant) -> Step:
        if wrong:
            fault = MetadataError("in", f"{', '.join(ClaimLocation)}; not {wrong[0][:40]}")
            raise invalid_entry(entry, [fault])
        names = [declaration.name for declaration in Declarations.of(tx).claims()]
        changed = declare_claim(tx, claim, settings.audience, now)
        return _step("claim", entry, names, changed)

    return apply


def _step(kind: str, entry: DeclaredEntry, names: Sequence[str], changed: bool | _Faults) -> Step:
    """Return what was done to an object; `names` are those of the objects before."""
    if isinstance(changed, tuple):
        raise invalid_entry(entry, changed)
    name = entry.text("name")
    is_new = name not in names
    done = Action.CREATE if is_new else Action.CHANGE if changed else Action.KEEP
    return Step(done, kind, name, declares=(Declared(kind, name, is_new=is_new),))


def _attributes_exported(tx: Transaction) -> Iterator[Mapping[str, object]]:
    for attribute in Declarations.of(tx).attributes():
        yield {
            "name": attribute.name,
            "label": attribute.label,
            "schema": dict(attribute.schema),
            "editable": attribute.editable,
        }


def _claims_exported(tx: Transaction) -> Iterator[Mapping[str, object]]:
    for claim in Declarations.of(tx).claims():
        yield {
            "name": claim.name,
            "from": claim.source,
            "in": [location.value for location in claim.places],
            "scope": claim.scope,
            "clients": sorted(claim.clients),
            "apis": sorted(claim.apis),
        }


def _hold(tx: Transaction) -> None:
    Declarations.of(tx).hold_all()


DECLARED = (
    DeclaredKind(
        name="attribute",
        table="attributes",
        readers={
            "name": read_text,
            "label": read_text,
            "schema": read_table,
            "editable": read_boolean,
        },
        key="name",
        example="…",
        secret_key="",
        hold=_hold,
        prepare=_attribute,
        exported=_attributes_exported,
        remove=remove_attribute,
        before_users=True,
    ),
    DeclaredKind(
        name="claim",
        table="claims",
        readers={
            "name": read_text,
            "from": read_text,
            "in": read_texts,
            "scope": read_text,
            "clients": read_texts,
            "apis": read_texts,
        },
        key="name",
        example="…",
        secret_key="",
        hold=_hold,
        prepare=_claim,
        exported=_claims_exported,
        remove=remove_claim,
    ),
)
