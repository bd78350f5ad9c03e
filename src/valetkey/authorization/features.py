"""What the features of `config/features.py` give to the server, joined."""

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from valetkey.authorization import grant_types
from valetkey.authorization.feature import Feature
from valetkey.authorization.grant_types import implicit
from valetkey.authorization.model.event import chain
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.operations.events import event_operations
from valetkey.authorization.operations.table import CORE, Table
from valetkey.authorization.protocol.register.client_rules import GrantTypes
from valetkey.authorization.storage.transaction import Hooks
from valetkey.config.features import NAMES
from valetkey.config.settings import Settings

FEATURES: tuple[Feature, ...] = tuple(
    import_module(f"valetkey.authorization.{name}.feature").FEATURE for name in NAMES
)

EVENTS = (*chain.EVENTS, *(event for feature in FEATURES for event in feature.events))
KINDS: Mapping[str, type[Event]] = MappingProxyType({kind.name: kind for kind in EVENTS})
"""Every kind of event, by its name."""

GRANT_TYPES = (*grant_types.CORE, *(kind for feature in FEATURES for kind in feature.grant_types))
"""The grant types of the token endpoint."""

GRANT_RULES: GrantTypes = MappingProxyType(
    {
        **{grant_type.name: grant_type.rules for grant_type in GRANT_TYPES},
        implicit.NAME: implicit.RULES,
    }
)
"""The registration rules of all grant types: metadata, registration, settings and CLI derive."""

TABLE = Table(
    [
        *CORE.items(),
        ("events", event_operations(KINDS)),
        *((feature.tag or feature.name, feature.operations) for feature in FEATURES),
        *(more for feature in FEATURES for more in feature.core_operations.items()),
    ],
    GRANT_RULES,
)
AREAS, OPERATIONS = TABLE.areas, TABLE.operations
DECLARED_KINDS = tuple(kind for feature in FEATURES for kind in feature.declared)
SCOPES: Mapping[str, str] = MappingProxyType(
    {name: description for feature in FEATURES for name, description in feature.scopes.items()}
)
CHECKS = tuple(check for feature in FEATURES for check in feature.checks)


def hooks(settings: Settings) -> Hooks:
    """Return what the features do in transactions of a new store."""
    made = [feature.hooks(settings) for feature in FEATURES]
    return Hooks(
        *(
            tuple(hook for hooks in made for hook in getattr(hooks, name))
            for name in Hooks.__struct_fields__
        )
    )
