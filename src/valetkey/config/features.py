"""The features of the server, one line for each, and the sections of the settings that they add.

The names stand here, below the servers, because a section exists only while its feature does.
"""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType

NAMES = (
    # Each imports only the core and those above it.
    "portal",
    "apis",
    "claims",
    "imports",
    "webhooks",
    "alerts",
    "signals",
    "device",
    "providers",
    "scim",
)
"""The packages of the features, in `valetkey.authorization`."""


@cache
def feature_sections() -> Mapping[str, type]:
    """Return the section of each feature that has a module `settings`, by name.

    Such a module imports only `config` and `kernel`, so that every command can load it.
    """
    sections: dict[str, type] = {}
    for name in NAMES:
        module = f"valetkey.authorization.{name}.settings"
        if find_spec(module):
            sections |= import_module(module).SECTIONS
    return MappingProxyType(dict(sorted(sections.items())))
