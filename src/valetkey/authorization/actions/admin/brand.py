"""The brand changes while the server runs: its name, its colour, its logo, its links."""

from collections.abc import Mapping
from types import MappingProxyType

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.event.administration import BrandChanged
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config import rules
from valetkey.config.sections.portal import BrandField, BrandSettings
from valetkey.kernel.moment import Instant

_LONGEST_NAME = 60
_NAME = rules.text(_LONGEST_NAME, f"a name of 1 to {_LONGEST_NAME} characters")
_RULES: Mapping[BrandField, rules.Rule] = MappingProxyType(
    {
        BrandField.NAME: _NAME,
        BrandField.ACCENT: rules.COLOUR,
        BrandField.LOGO_URL: rules.LOGO,
        BrandField.TERMS_URL: rules.LINK,
        BrandField.PRIVACY_URL: rules.LINK,
    }
)


def brand_of(settings: BrandSettings) -> Mapping[BrandField, str]:
    """Return the brand of the configuration file."""
    return {field: str(getattr(settings, field.value)) for field in BrandField}


def brand_now(tx: Transaction, settings: BrandSettings) -> Mapping[BrandField, str]:
    """The brand as it is."""
    return {**brand_of(settings), **tx.brand.all()}


def change_brand(
    tx: Transaction,
    actor: Actor,
    settings: BrandSettings,
    changes: Mapping[BrandField, str | None],
    now: Instant,
) -> Mapping[BrandField, str] | tuple[MetadataError, ...]:
    """Change the brand. Return the result, or the errors. None as a value restores the setting.

    Pages of every process follow within seconds. Raises Refused (forbidden).
    """
    tx.brand.take_turn()
    require(tx, actor, Permission.SETTINGS)
    faults: list[MetadataError] = []
    wanted: dict[BrandField, str | None] = {}
    for field, value in changes.items():
        try:
            wanted[field] = None if value is None else str(_RULES[field].read(value.strip()))
        except rules.InvalidValue:
            faults.append(MetadataError(field.value, _RULES[field].expected))
    if wanted.get(BrandField.NAME) == "":
        faults.append(MetadataError(BrandField.NAME.value, _NAME.expected))
    if faults:
        return tuple(faults)
    base = brand_of(settings)
    before = brand_now(tx, settings)
    for field, value in wanted.items():
        if value is None or value == base[field]:
            tx.brand.drop(field)
        else:
            tx.brand.put(field, value, now)
    after = brand_now(tx, settings)
    for field in BrandField:
        if before[field] != after[field]:
            tx.events.add(BrandChanged(field.value, before[field], after[field]), now)
    return after
