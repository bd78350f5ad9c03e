"""PATCH: operations applied to a resource, in the dialects of common directories.

RFC 7644 section 3.5.2. Entra ID writes operations with a capital, removes values by listing them,
and replaces parts of values that do not exist yet; Okta sends attributes that cannot be changed.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import cast

from msgspec import Struct

from valetkey.authorization.scim.endpoints.filter import (
    And,
    Compare,
    Filter,
    Path,
    comparisons,
    matches,
    parse_path,
)
from valetkey.authorization.scim.endpoints.schema import (
    Attribute,
    LeftOut,
    Resource,
    Schema,
    read_value,
    refuse,
    shown_name,
)
from valetkey.kernel.replace import replace

MOST = 1_000
"""Maximum number of operations of one request."""

COMPARISONS = 2_000
"""Maximum number of comparisons in the paths of one request."""

_MOST_VALUES = 10
"""Maximum number of values while a request is applied; one of them is kept."""

_SCHEMA = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
_OPERATORS = frozenset({"add", "replace", "remove"})


class Change(Struct, frozen=True):
    """One operation on one path; `value` has the types of its attribute, None for nothing."""

    operator: str
    path: Path
    value: object


def read_changes(body: object, schema: Schema, left: LeftOut) -> Sequence[Change]:
    """Return the operations of a PATCH request, before its transaction. Raises Refused.

    What cannot be kept is added to `left`.
    """
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
    changes = [change for each in listed for change in _changes(each, schema, left)]
    selections = [each.path.selection for each in changes if each.path.selection is not None]
    if sum(1 for each in selections for _ in comparisons(each)) > COMPARISONS:
        refuse("tooMany", f"the paths of one request have at most {COMPARISONS} comparisons")
    return changes


def apply(resource: Resource, changes: Sequence[Change], left: LeftOut) -> Resource:
    """Return the resource after the changes; what cannot be applied is added to `left`."""
    after = deepcopy(resource)
    for change in changes:
        # Copied, because a transaction may run again.
        _apply(after, replace(change, value=deepcopy(change.value)), left)
    return after


def _changes(operation: object, schema: Schema, left: LeftOut) -> Iterator[Change]:
    if not isinstance(operation, dict):
        refuse("invalidSyntax", "an operation must be an object")
    said = {name.lower(): value for name, value in cast("Resource", operation).items()}
    operator, path, value = said.get("op"), said.get("path"), said.get("value")
    operator = operator.lower() if isinstance(operator, str) else ""
    if operator not in _OPERATORS:
        refuse("invalidSyntax", "op must be add, replace or remove")
    if path is None or (isinstance(path, str) and path.lower() == schema.urn.lower()):
        yield from _pathless(operator, value, schema, left)
        return
    if not isinstance(path, str):
        refuse("invalidPath", "path must be text")
    found = _path(path, schema, left)
    if found is None:
        return
    if found.attribute.name == "id":
        refuse("mutability", "id cannot be changed")
    if found.is_read_only:
        left.add(found.where)
        return
    yield from _change(operator, found, value, left)


def _pathless(operator: str, value: object, schema: Schema, left: LeftOut) -> Iterator[Change]:
    if operator == "remove":
        refuse("noTarget", "remove needs a path")
    if not isinstance(value, dict):
        refuse("invalidValue", "an operation without a path needs an object as its value")
    for name, each in schema.flat(cast("Resource", value)):
        found = _path(name, schema, left)
        # Okta sends the whole resource, with its id.
        if found is not None and not found.is_read_only:
            yield from _change(operator, found, each, left)


def _path(text: str, schema: Schema, left: LeftOut) -> Path | None:
    found = parse_path(text, schema)
    if found is None and not schema.ignores(text.partition("[")[0]):
        left.add((shown_name(text),))
    return found


def _change(operator: str, path: Path, value: object, left: LeftOut) -> Iterator[Change]:
    """Yield the operation, unless its value was left out."""
    unkept = LeftOut()
    if path.part is not None:
        read = read_value(path.part, value, unkept, (path.attribute.name,))
    else:
        read = read_value(path.attribute, value, unkept)
    left |= unkept
    if read is None and unkept:
        return
    if path.selection is not None and path.part is None:
        # A selected value is one of several: read as a list of one.
        read = cast("list[object]", read)[0] if read else None
    yield Change(operator, path, read)


def _apply(resource: Resource, change: Change, left: LeftOut) -> None:
    path = change.path
    if path.selection is not None:
        _apply_to_selected(resource, change, path.selection, left)
    elif path.attribute.multiple and path.part is None:
        _apply_to_all(resource, change, left)
    elif path.attribute.multiple:
        _apply_to_each(resource, change, left)
    elif path.part is not None:
        inside = cast("Resource", resource.get(path.attribute.name) or {})
        _set(inside, path.part, change, left)
        _put(resource, path.attribute, inside, left)
    else:
        _set(resource, path.attribute, change, left)


def _set(holder: Resource, attribute: Attribute, change: Change, left: LeftOut) -> None:
    value = change.value
    if change.operator == "remove" or value is None:
        holder.pop(attribute.name, None)
    elif attribute.type == "complex" and not attribute.multiple:
        # Parts that are not named stay, also for replace (RFC 7644 section 3.5.2.3).
        before = cast("Resource", holder.get(attribute.name) or {})
        holder[attribute.name] = {**before, **cast("Resource", value)}
    elif attribute.multiple and change.operator == "add":
        listed = cast("list[object]", holder.get(attribute.name) or [])
        known = {(type(each), each) for each in listed}
        more = [e for e in cast("list[object]", value) if (type(e), e) not in known]
        if len(listed) + len(more) > attribute.most:
            left.add(change.path.where)
        holder[attribute.name] = [*listed, *more][: attribute.most]
    else:
        holder[attribute.name] = value


def _apply_to_all(resource: Resource, change: Change, left: LeftOut) -> None:
    attribute = change.path.attribute
    before = cast("list[Resource]", resource.get(attribute.name) or [])
    said = cast("list[Resource]", change.value or [])
    if change.operator == "remove":
        gone = [each.get("value") for each in said]
        kept = [each for each in before if gone and each.get("value") not in gone]
        _put(resource, attribute, kept, left)
    elif change.operator == "replace":
        _put(resource, attribute, list(said), left)
    else:
        more = [each for each in said if each not in before]
        _put(resource, attribute, [*before, *more], left)


def _apply_to_each(resource: Resource, change: Change, left: LeftOut) -> None:
    attribute, part = change.path.attribute, change.path.part
    if part is None:
        raise TypeError("a part is named here")
    values: list[Resource] = cast("list[Resource]", resource.get(attribute.name) or [])
    if not values and change.operator != "remove":
        values = [{}]
    for each in values:
        _set(each, part, change, left)
    _put(resource, attribute, [each for each in values if each], left)


def _apply_to_selected(
    resource: Resource, change: Change, selection: Filter, left: LeftOut
) -> None:
    attribute, part = change.path.attribute, change.path.part
    values = cast("list[Resource]", resource.get(attribute.name) or [])
    selected = [each for each in values if matches(selection, each)]
    if not selected and change.operator != "remove":
        made = _described(selection)
        if made is None:
            left.add(change.path.where)
            return
        values, selected = [*values, made], [made]
    if change.operator == "remove" and part is None:
        _put(resource, attribute, [each for each in values if each not in selected], left)
        return
    for each in selected:
        if part is not None:
            _set(each, part, change, left)
        else:
            each.update(cast("Resource", change.value or {}))
    _put(resource, attribute, values, left)


def _described(selection: Filter) -> Resource | None:
    """Return the value that a selection such as `type eq "work"` describes; None if it does not."""
    parts = selection.parts if isinstance(selection, And) else (selection,)
    found: Resource = {}
    for each in parts:
        if not isinstance(each, Compare) or each.operator != "eq" or each.value is None:
            return None
        found[each.path[-1].name] = each.value
    return found


def _put(
    resource: Resource, attribute: Attribute, value: Resource | list[Resource], left: LeftOut
) -> None:
    if not value:
        resource.pop(attribute.name, None)
        return
    primaries = [e for e in value if isinstance(e, dict) and e.get("primary") is True]
    for each in primaries[:-1]:
        # The last value marked as primary is the primary one (RFC 7644 section 3.5.2).
        each["primary"] = False
    if isinstance(value, list) and len(value) > _MOST_VALUES:
        left.add((attribute.name,))
        value = sorted(value, key=lambda each: each.get("primary") is not True)[:_MOST_VALUES]
    resource[attribute.name] = value
