"""Declarations of a client's fields, from which every interface reads and shows them.

`ClientMetadata` and its part `OpenIdRegistration` annotate each of their fields with a `FieldRule`.
Registration, portal, console, commands, `valetkey apply`, the admin API and the reference derive
from these.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from enum import Enum, Flag, StrEnum, auto
from typing import Any, get_type_hints

from msgspec import Struct, structs

from valetkey.kernel.scope import Scope


class FieldType(Enum):
    """The types of field values."""

    LINE = "printable text"
    LINK = "an https address"
    TEXT = "text"
    CHOICE = "one of a list of words"
    TEXTS = "a list of texts"
    SCOPES = "a list of scopes"
    GRANT_TYPES = "a list of grant types"
    FLAG = "true or false"
    WHOLE = "a whole number"
    LIFETIME = "a lifetime"
    KEY_SET = "a JWK set"


LISTS = frozenset({FieldType.TEXTS, FieldType.SCOPES, FieldType.GRANT_TYPES})
"""The kinds whose values are tuples of texts."""


class UnusableValue(Enum):
    """What becomes of a value that cannot be kept, where a program registers a client.

    People who type a value are always told that it is refused.
    """

    REFUSED = "refused"
    LEFT_OUT = "left out"
    LEFT_OUT_BESIDE_OTHERS = "left out, if other entries remain"


class Editor(Flag):
    """The interfaces that may set a field."""

    CLIENT = auto()
    """The client itself, by dynamic registration (RFC 7591, RFC 7592)."""
    DEVELOPER = auto()
    """A developer, by the form of the portal."""
    ADMINISTRATOR = auto()
    """An administrator, by the admin API."""
    OPERATOR = auto()
    """The operator, by commands and the file of `valetkey apply`."""


RFC_7591 = "RFC 7591"
PROTOCOL = Editor.CLIENT | Editor.OPERATOR
STAFF = Editor.ADMINISTRATOR | Editor.OPERATOR
EVERYONE = PROTOCOL | STAFF | Editor.DEVELOPER


@dataclass(frozen=True, slots=True)
class FieldRule:
    """The properties of a field beyond its type, its default and its docstring.

    `source` is the document that defines it. `member` is its name in a registration if it differs
    (RFC 7591 section 2), `attribute` its name in `Client`. `label` is its name on pages: a
    developer's field needs one, and lines and links with one are in the portal's form. Texts have
    from `shortest` to `longest` characters. `unusable` is REFUSED for what identifies the client,
    proves or protects something; other fields are less than what a registration is for.
    """

    kind: FieldType
    source: str = ""
    editors: Editor = EVERYONE
    label: str = ""
    _: KW_ONLY
    hint: str = ""
    member: str = ""
    attribute: str = ""
    choices: type[StrEnum] | tuple[str, ...] = ()
    shortest: int = 0
    longest: int = 2_000
    unusable: UnusableValue = UnusableValue.REFUSED

    @property
    def enum(self) -> type[StrEnum] | None:
        """The type of the choices; None where a registry has their names."""
        return self.choices if isinstance(self.choices, type) else None


class Field(Struct, frozen=True):
    """A declared field. `part` is the attribute of the metadata that holds it, "" for none."""

    name: str
    default: object
    rule: FieldRule
    part: str = ""

    @property
    def member(self) -> str:
        """The name of the field in a registration."""
        return self.rule.member or self.name

    @property
    def attribute(self) -> str:
        """The name of the field in `Client`."""
        return self.rule.attribute or self.name

    def of(self, metadata: object) -> Any:
        """Return the value of the field in these `ClientMetadata`."""
        return getattr(getattr(metadata, self.part) if self.part else metadata, self.name)

    def recorded(self, metadata: object) -> Any:
        """Return the value of the field in these `ClientMetadata`, as a `Client` stores it."""
        value = self.of(metadata)
        match self.rule.kind:
            case FieldType.CHOICE if value and self.rule.enum:
                return self.rule.enum(value)
            case FieldType.SCOPES:
                return Scope(value)
            case FieldType.GRANT_TYPES:
                return frozenset(value)
            case _:
                return value

    def chosen(self, client: object) -> Any:
        """Return the value of the field in this `Client`, as `ClientMetadata` have it."""
        value = getattr(client, self.attribute)
        match self.rule.kind:
            case FieldType.CHOICE:
                return str(value)
            case FieldType.SCOPES:
                return value.names
            case FieldType.GRANT_TYPES:
                return tuple(sorted(value))
            case _:
                return value


def declared(kind: type[Struct], part: str = "") -> Iterator[Field]:
    """Return the annotated fields of a Struct, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    for each in structs.fields(kind):
        for rule in getattr(hints[each.name], "__metadata__", ()):
            if isinstance(rule, FieldRule):
                yield Field(each.name, "" if each.required else each.default, rule, part)
