"""Attributes of accounts that an operator declares, such as a department."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar

import msgspec

ATTRIBUTE_NAME = r"[A-Za-z][A-Za-z0-9_]{0,39}"
"""The pattern of an attribute's name."""

MOST_ATTRIBUTES = 64
"""Maximum number of declared attributes."""

LARGEST_ATTRIBUTES = 8_192
"""Maximum size of all attributes of one user in bytes of JSON."""


@dataclass(frozen=True, slots=True)
class Attribute:
    """A declared attribute: the JSON Schema of its values, and whether users may edit their own.

    `label` is what pages call it.
    """

    name: str
    label: str = ""
    schema: Mapping[str, object] = field(default_factory=dict[str, object])
    editable: bool = False

    def encode(self) -> str:
        """Encode for storage."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def decode(text: str) -> "Attribute":
        """Decode what `encode` returned."""
        return msgspec.json.decode(text, type=Attribute)


@dataclass(frozen=True, slots=True)
class UserAttributes:
    """The values of a user's attributes by name, also of those that are no longer declared."""

    NOTHING: ClassVar["UserAttributes"]

    values: Mapping[str, object]

    def encode(self) -> str:
        """Encode for storage."""
        return msgspec.json.encode(dict(self.values)).decode() if self.values else "{}"

    @staticmethod
    def decode(text: str) -> "UserAttributes":
        """Decode what `encode` returned."""
        if text == "{}":
            return UserAttributes.NOTHING
        return UserAttributes(msgspec.json.decode(text, type=dict[str, object]))


UserAttributes.NOTHING = UserAttributes(MappingProxyType({}))
