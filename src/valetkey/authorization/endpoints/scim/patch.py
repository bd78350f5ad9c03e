"""PATCH: operations applied to a resource, in the dialects of common directories.

RFC 7644 section 3.5.2. Entra ID writes operations with a capital, removes values by listing them,
and replaces parts of values that do not exist yet; Okta sends attributes that cannot be changed.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import cast

from msgspec import Struct

from valetkey.authorization.endpoints.scim.filter import (
    And,
    Compare,
    Filter,
    Path,
    matches,
    parse_path,
)
from valetkey.authorization.endpoints.scim.schema import (
    Attribute,
    Resource,
    Schema,
    read_value,
    refuse,
)

MOST = 1_000
"""Maximum number of operations of one request."""

_MOST_VALUES = 100
_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_OPERATORS = frozenset({"add", "replace", "remove"})


class Change(Struct, frozen=True):
    """One operation on one path; `value` has the types of its attribute, None for nothing."""

    operator: str
    path: Path
    value: object


def read_changes(body: object, schema: Schema) -> Sequence[Change]:
    """Return the operations of a PATCH request. Raises Refused."""
    if not isinstance(body, dict):
        refuse("invalidSyntax", "the body must be a PatchOp message")
    said = {name.lower(): value for name, value in cast("Resource", body).items()}
    schemas, operations = said.get("schemas"), said.get("operations")
    if not isinstance(schemas, list) or _SCHEMA not in schemas:
        refuse("invalidSyntax", f"schemas must hold {_SCHEMA}")
    if not isinstance(operations, list) or not operations:
        refuse("invalidSyntax", "Operations must be a list of at least one operation")
    listed = cast("list[object]", operations)
    if len(listed) > MOST:
        refuse("invalidValue", f"one request takes at most {MOST} operations")
    return [change for each in listed for change in _changes(each, schema)]


def apply(resource: Resource, changes: Sequence[Change]) -> Resource:
    """Return the resource after the changes. Raises Refused (noTarget)."""
    after = deepcopy(resource)
    for change in changes:
        _apply(after, change)
    return after


def _changes(operation: object, schema: Schema) -> Iterator[Change]:
    if not isinstance(operation, dict):
        refuse("invalidSyntax", "an operation must be an object")
    said = {name.lower(): value for name, value in cast("Resource", operation).items()}
    operator, path, value = said.get("op"), said.get("path"), said.get("value")
    operator = operator.lower() if isinstance(operator, str) else ""
    if operator not in _OPERATORS:
        refuse("invalidSyntax", "op must be add, replace or remove")
    if path is None:
        yield from _pathless(operator, value, schema)
        return
    if not isinstance(path, str):
        refuse("invalidPath", "path must be text")
    found = parse_path(path, schema)
    if found is None:
        return
    if found.attribute.read_only:
        refuse("mutability", f"{found.attribute.name} cannot be changed")
    yield _change(operator, found, value)


def _pathless(operator: str, value: object, schema: Schema) -> Iterator[Change]:
    if operator == "remove":
        refuse("noTarget", "remove needs a path")
    if not isinstance(value, dict):
        refuse("invalidValue", "an operation without a path needs an object as its value")
    for name, each in cast("Resource", value).items():
        found = None if name.lower() == "schemas" else parse_path(name, schema)
        if found is not None and not found.attribute.read_only:
            yield _change(operator, found, each)


def _change(operator: str, path: Path, value: object) -> Change:
    if path.part is not None:
        return Change(operator, path, read_value(path.part, value, f"{path.attribute.name}."))
    if path.selection is None:
        return Change(operator, path, read_value(path.attribute, value))
    # A selected value is one of several: read as a list of one.
    found = read_value(path.attribute, value)
    return Change(operator, path, cast("list[object]", found)[0] if found else None)


def _apply(resource: Resource, change: Change) -> None:
    path = change.path
    if path.selection is not None:
        _apply_to_selected(resource, change, path.selection)
    elif path.attribute.multiple and path.part is None:
        _apply_to_all(resource, change)
    elif path.attribute.multiple:
        _apply_to_each(resource, change)
    elif path.part is not None:
        inside = cast("Resource", resource.get(path.attribute.name) or {})
        _set(inside, path.part, change)
        _put(resource, path.attribute, inside)
    else:
        _set(resource, path.attribute, change)


def _set(holder: Resource, attribute: Attribute, change: Change) -> None:
    value = change.value
    if change.operator == "remove" or value is None:
        holder.pop(attribute.name, None)
    elif attribute.type == "complex" and not attribute.multiple:
        # Parts that are not named stay, also for replace (RFC 7644 section 3.5.2.3).
        before = cast("Resource", holder.get(attribute.name) or {})
        holder[attribute.name] = {**before, **cast("Resource", value)}
    elif attribute.multiple and change.operator == "add":
        listed = cast("list[object]", holder.get(attribute.name) or [])
        more = [each for each in cast("list[object]", value) if each not in listed]
        holder[attribute.name] = [*listed, *more]
    else:
        holder[attribute.name] = value


def _apply_to_all(resource: Resource, change: Change) -> None:
    attribute = change.path.attribute
    before = cast("list[Resource]", resource.get(attribute.name) or [])
    said = cast("list[Resource]", change.value or [])
    if change.operator == "remove":
        gone = [each.get("value") for each in said]
        left = [each for each in before if gone and each.get("value") not in gone]
        _put(resource, attribute, left)
    elif change.operator == "replace":
        _put(resource, attribute, list(said))
    else:
        _put(resource, attribute, [*before, *(each for each in said if each not in before)])


def _apply_to_each(resource: Resource, change: Change) -> None:
    attribute, part = change.path.attribute, change.path.part
    if part is None:
        raise TypeError("a part is named here")
    values: list[Resource] = cast("list[Resource]", resource.get(attribute.name) or [])
    if not values and change.operator != "remove":
        values = [{}]
    for each in values:
        _set(each, part, change)
    _put(resource, attribute, [each for each in values if each])


def _apply_to_selected(resource: Resource, change: Change, selection: Filter) -> None:
    attribute, part = change.path.attribute, change.path.part
    values = cast("list[Resource]", resource.get(attribute.name) or [])
    selected = [each for each in values if matches(selection, each)]
    if not selected and change.operator != "remove":
        values = [*values, made := _described(selection)]
        selected = [made]
    if change.operator == "remove" and part is None:
        _put(resource, attribute, [each for each in values if each not in selected])
        return
    for each in selected:
        if part is not None:
            _set(each, part, change)
        else:
            each.update(cast("Resource", change.value or {}))
    _put(resource, attribute, values)


def _described(selection: Filter) -> Resource:
    """Return the value that a selection such as `type eq "work"` describes, to be added."""
    parts = selection.parts if isinstance(selection, And) else (selection,)
    found: Resource = {}
    for each in parts:
        if not isinstance(each, Compare) or each.operator != "eq" or each.value is None:
            refuse("noTarget", "no value fulfils the selection of the path")
        found[each.path[-1].name] = each.value
    return found


def _put(resource: Resource, attribute: Attribute, value: Resource | list[Resource]) -> None:
    if not value:
        resource.pop(attribute.name, None)
        return
    if len(value) > _MOST_VALUES:
        refuse("invalidValue", f"{attribute.name} takes at most {_MOST_VALUES} values")
    primaries = [e for e in value if isinstance(e, dict) and e.get("primary") is True]
    for each in primaries[:-1]:
        # The last value marked as primary is the primary one (RFC 7644 section 3.5.2).
        each["primary"] = False
    resource[attribute.name] = value
