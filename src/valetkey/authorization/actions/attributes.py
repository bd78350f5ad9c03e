"""The attributes of an account: its values, judged by what is declared.

Values are judged by `merged_attributes` before they are stored: with a new account, or by
`change_attributes`, inside a transaction.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import msgspec

from valetkey.authorization.model.event.accounts import UserChanged
from valetkey.authorization.model.user import LARGEST_ATTRIBUTES, Attribute, User, UserAttributes
from valetkey.authorization.protocol.register.faults import REASONS, MetadataError, fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.shapes import FieldError, JsonSchema, whole
from valetkey.kernel.strict_json import read_object

Faults = tuple[MetadataError, ...]

_LIMITS = {
    "minLength": ("length.least", "least"),
    "maxLength": ("length.most", "most"),
    "minimum": ("number.least", "least"),
    "maximum": ("number.most", "most"),
}
SIMPLE_TYPES = ("string", "integer", "number", "boolean")
"""The types of values that can be entered in one field of a form."""


def attributes_of(user: User, declared: Sequence[Attribute]) -> dict[str, object]:
    """Return the user's values of the declared attributes, in their order."""
    values = user.attributes.values
    return {
        attribute.name: values[attribute.name] for attribute in declared if attribute.name in values
    }


def change_attributes(
    tx: Transaction, user: User, changes: Mapping[str, object], now: Instant
) -> User | Faults:
    """Change the named attributes of a user found to be changed; None removes a value.

    Attributes that are not named stay. Return the user as it is now, or everything that is wrong:
    undeclared names, values that do not fit their schemas, more than 8,192 bytes together.
    """
    after = merged_attributes(tx.attributes(), user.attributes, changes)
    if isinstance(after, tuple):
        return after
    if after == user.attributes:
        return user
    before = user.attributes.values
    changed = [
        name
        for name in sorted(before.keys() | after.values.keys())
        if before.get(name) != after.values.get(name)
    ]
    tx.users.set_attributes(user.uid, after, now)
    tx.events.add(UserChanged(user.uid, tuple(f"attributes.{name}" for name in changed)), now)
    return replace(user, attributes=after, changed_at=now)


def merged_attributes(
    declared: Collection[Attribute], before: UserAttributes, changes: Mapping[str, object]
) -> UserAttributes | Faults:
    """Return the attributes with these changes, or everything that is wrong with them.

    A value without its declaration is dropped.
    """
    changes = {name: whole(value) for name, value in changes.items()}
    faults = attribute_faults(declared, changes)
    if faults:
        return faults
    values = {**before.values, **changes}
    values = {name: value for name, value in values.items() if value is not None}
    names = {attribute.name for attribute in declared}
    after = UserAttributes({name: values[name] for name in sorted(values) if name in names})
    if after != before and len(after.encode()) > LARGEST_ATTRIBUTES:
        return (
            MetadataError(
                "attributes",
                f"at most {LARGEST_ATTRIBUTES} bytes of JSON",
                "attribute.size",
                {"most": str(LARGEST_ATTRIBUTES)},
            ),
        )
    return after


def attribute_faults(declared: Collection[Attribute], changes: Mapping[str, object]) -> Faults:
    """Return what is wrong with these values; None, which removes a value, is always valid."""
    values = {name: value for name, value in changes.items() if value is not None}
    names = {attribute.name for attribute in declared}
    unknown = [name for name in changes if name not in names]
    if unknown:
        return tuple(
            fault(
                "attributes",
                "attribute.none",
                f"declared ones; there is no {name[:40]!a}",
                name=name[:40],
            )
            for name in unknown[:10]
        )
    # A value that readers of tokens would reject must not become a claim.
    if read_object(msgspec.json.encode({"attributes": values})) is None:
        right = "whole numbers below 2**53, and at most six levels of lists and objects"
        return (MetadataError("attributes", right, "attribute.json"),)
    errors, _ = attribute_shape(declared).validate(values) if values else ((), {})
    return tuple(_schema_fault(error) for error in errors)


def _schema_fault(error: FieldError) -> MetadataError:
    code, name = "attribute.schema", ""
    match error.keyword, error.allowed:
        case "type", [str() as kind] if f"type.{kind}" in REASONS:
            code = f"type.{kind}"
        case "enum" | "const", _:
            code = "attribute.value"
        case "minLength", 1:
            code = "length.none"
        case ("minLength" | "maxLength" | "minimum" | "maximum") as keyword, int():
            code, name = _LIMITS[keyword]
        case _:
            pass
    values = {name: str(error.allowed)} if name else {}
    return MetadataError(f"attributes{error.pointer}", error.detail, code, values)


def typed_value(attribute: Attribute, text: str) -> object:
    """Return what a user typed as a value of the attribute; None for nothing.

    Text that is no number stays text, which the schema then refuses.
    """
    text = text.strip()
    if not text:
        return None
    kind = attribute.schema.get("type")
    if kind == "boolean":
        return {"true": True, "false": False}.get(text, text)
    try:
        if kind == "integer":
            return int(text)
        number = float(text) if kind == "number" else 0.0
    except ValueError:
        return text
    # JSON has no infinity.
    return number if kind == "number" and math.isfinite(number) else text


def takes_json(attribute: Attribute) -> bool:
    """Return whether the value is entered as JSON, since its type is not that of a field."""
    return attribute.schema.get("type") not in SIMPLE_TYPES


def shown_value(value: object) -> str:
    """Return a value as one line of text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def shown_attributes(user: User, declared: Sequence[Attribute]) -> tuple[tuple[str, str], ...]:
    """Return the label and the value of each attribute that the user has, for a page."""
    values = attributes_of(user, declared)
    return tuple(
        (attribute.label or attribute.name, shown_value(values[attribute.name]))
        for attribute in declared
        if attribute.name in values
    )


def attribute_shape(declared: Collection[Attribute]) -> JsonSchema:
    """Return the shape of all their values. Raises UnusableSchema."""
    return _compiled(tuple(attribute.encode() for attribute in declared))


@lru_cache(maxsize=4)
def _compiled(declared: tuple[str, ...]) -> JsonSchema:
    # Kept: an import judges thousands of users by the same declarations.
    attributes = [Attribute.decode(text) for text in declared]
    properties = {attribute.name: dict(attribute.schema) for attribute in attributes}
    return JsonSchema({"type": "object", "properties": properties})
