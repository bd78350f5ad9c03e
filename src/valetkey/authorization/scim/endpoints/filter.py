"""Filters of SCIM (RFC 7644 section 3.4.2.2), and patches, whose paths they are (3.5.2).

RFC 7644 section 3.5.2. Entra ID writes operations with a capital, removes values by listing them,
and replaces parts of values that do not exist yet; Okta sends attributes that cannot be changed.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NoReturn, cast

from msgspec import Struct

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

LONGEST = 2_000
"""Maximum length of a filter or a path, in characters."""

DEPTH = 8
"""Maximum depth of parentheses."""

COMPARISONS = 20
"""Maximum number of comparisons in a filter."""

_TOKEN = re.compile(
    r'(?P<space> +)|(?P<text>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*")'
    r"|(?P<number>-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,15})?(?![A-Za-z0-9.]))"
    r"|(?P<part>\.[A-Za-z$]+)|(?P<word>[A-Za-z$][A-Za-z0-9_:.$-]*)|(?P<sign>[()\[\]])"
)
_PATH = re.compile(
    r"(?P<name>[A-Za-z$][A-Za-z0-9_:.$-]*)(?:\[(?P<inside>.*)\](?:\.(?P<last>[A-Za-z$]+))?)?"
)
_ORDER: Mapping[str, Callable[[str, str], bool]] = {
    "eq": lambda a, b: a == b,
    "co": lambda a, b: b in a,
    "sw": lambda a, b: a.startswith(b),
    "ew": lambda a, b: a.endswith(b),
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
}
_LITERALS = {"true": True, "false": False, "null": None}

Literal = str | int | float | bool | None


class Compare(Struct, frozen=True):
    """A comparison of an attribute, or of its part, with a value; `operator` may be `pr`."""

    path: tuple[Attribute, ...]
    operator: str
    value: Literal = None

    @property
    def name(self) -> str:
        """The compared attribute, with its default part if none is named."""
        attribute, *part = self.path
        if part:
            return f"{attribute.name}.{part[0].name}"
        return f"{attribute.name}.value" if attribute.part("value") else attribute.name


class And(Struct, frozen=True):
    """A conjunction (`and`)."""

    parts: Sequence["Filter"]


class Or(Struct, frozen=True):
    """A disjunction (`or`)."""

    parts: Sequence["Filter"]


class Not(Struct, frozen=True):
    """A negation (`not`)."""

    part: "Filter"


class Element(Struct, frozen=True):
    """One value of a multi-valued attribute matches the filter on its parts."""

    attribute: Attribute
    part: "Filter"


Filter = Compare | And | Or | Not | Element


class Path(Struct, frozen=True):
    """The path of a PATCH operation: `members[value eq "7"].display`."""

    attribute: Attribute
    selection: Filter | None = None
    part: Attribute | None = None

    @property
    def where(self) -> tuple[str, ...]:
        """The names of the attribute and of its part."""
        return (self.attribute.name, *((self.part.name,) if self.part else ()))

    @property
    def is_read_only(self) -> bool:
        """Whether the attribute or its part cannot be written."""
        return self.attribute.read_only or (self.part is not None and self.part.read_only)


class UnknownAttribute(Exception):
    """A filter names an attribute that this server does not know."""


def parse_filter(text: str, schema: Schema) -> Filter:
    """Return the filter. Raises Refused (invalidFilter)."""
    parser = _Parser(text, schema.find, "invalidFilter")
    try:
        condition = parser.either(0)
    except UnknownAttribute:
        parser.wrong("it names no attribute that this server knows")
    if parser.next is not None:
        parser.wrong()
    return condition


def parse_path(text: str, schema: Schema) -> Path | None:
    """Return the path; None if it names an attribute that is not kept. Raises Refused."""
    text = text.strip(" ")
    match = _PATH.fullmatch(text) if len(text) <= LONGEST else None
    if match is None:
        refuse("invalidPath", "the path is not as RFC 7644 section 3.5.2 defines")
    name, inside, last = match["name"], match["inside"], match["last"]
    path = schema.find(name)
    if path is None:
        return None
    attribute, part = path[0], path[1] if len(path) > 1 else None
    if inside is None:
        return Path(attribute, None, part)
    if part is not None or not attribute.multiple:
        refuse("invalidPath", "a selection in brackets needs an attribute with several values")
    parser = _Parser(inside, lambda part_name: _part_of(attribute, part_name), "invalidPath")
    try:
        selection = parser.either(0)
    except UnknownAttribute:
        return None
    if parser.next is not None:
        parser.wrong()
    part = attribute.part(last) if last else None
    return None if last and part is None else Path(attribute, selection, part)


def matches(filter: Filter, resource: Mapping[str, object]) -> bool:
    """Return whether the filter holds for the resource, or for one value of an attribute."""
    match filter:
        case And(parts):
            return all(matches(condition, resource) for condition in parts)
        case Or(parts):
            return any(matches(condition, resource) for condition in parts)
        case Not(part):
            return not matches(part, resource)
        case Element(attribute, part):
            return any(
                matches(part, cast("Resource", value))
                for value in _values(resource, (attribute,))
                if isinstance(value, dict)
            )
        case Compare():
            return _compares(filter, resource)


def comparisons(filter: Filter) -> Iterator[Compare]:
    """Yield every comparison; those inside brackets with the attribute before the brackets."""
    match filter:
        case Compare():
            yield filter
        case And(parts) | Or(parts):
            for condition in parts:
                yield from comparisons(condition)
        case Not(part):
            yield from comparisons(part)
        case Element(attribute, part):
            for comparison in comparisons(part):
                yield Compare((attribute, *comparison.path), comparison.operator, comparison.value)


def candidates(filter: Filter, indexed: frozenset[str]) -> Sequence[Compare] | None:
    """Return equalities with indexed attributes of which one must hold; None if there are none."""
    match filter:
        case Compare(_, "eq", str()) if filter.name in indexed:
            return (filter,)
        case Element(attribute, part):
            inside = frozenset(
                name.removeprefix(f"{attribute.name}.")
                for name in indexed
                if name.startswith(f"{attribute.name}.")
            )
            inner_equalities = candidates(part, inside)
            return inner_equalities and [
                Compare((attribute, *equality.path), equality.operator, equality.value)
                for equality in inner_equalities
            ]
        case And(parts):
            return next(
                (one for condition in parts if (one := candidates(condition, indexed))), None
            )
        case Or(parts):
            each_part = [candidates(condition, indexed) for condition in parts]
            if all(each_part):
                return [one for equalities in each_part for one in equalities or ()]
            return None
        case _:
            return None


def _compares(filter: Compare, resource: Mapping[str, object]) -> bool:
    path = filter.path
    if len(path) == 1 and path[0].part("value") is not None and path[0].type == "complex":
        values = [
            cast("Resource", value).get("value") if isinstance(value, dict) else value
            for value in _values(resource, path)
        ]
        last = path[0].part("value") or path[0]
    else:
        values, last = _values(resource, path), path[-1]
    values = [value for value in values if value is not None]
    if filter.operator == "pr":
        return bool(values)
    if filter.value is None:
        return not values if filter.operator == "eq" else bool(values)
    if filter.operator == "ne":
        return not any(_holds(last, "eq", value, filter.value) for value in values)
    return any(_holds(last, filter.operator, value, filter.value) for value in values)


def _holds(attribute: Attribute, operator: str, value: object, literal: Literal) -> bool:
    if isinstance(value, bool) or isinstance(literal, bool):
        return operator == "eq" and value is literal
    if isinstance(value, int | float) and isinstance(literal, int | float):
        return _ordered(operator, value, literal)
    if not isinstance(value, str) or not isinstance(literal, str):
        return False
    if not attribute.exact:
        value, literal = value.casefold(), literal.casefold()
    return _ORDER[operator](value, literal)


def _ordered(operator: str, value: float, number: float) -> bool:
    if operator == "eq":
        return value == number
    if operator in {"gt", "ge"}:
        return value > number or (operator == "ge" and value == number)
    return operator in {"lt", "le"} and (value < number or (operator == "le" and value == number))


def _values(resource: Mapping[str, object], path: tuple[Attribute, ...]) -> list[object]:
    values: list[object] = [resource]
    for attribute in path:
        below: list[object] = []
        for holder in values:
            value = (
                cast("Resource", holder).get(attribute.name) if isinstance(holder, dict) else None
            )
            below += cast("list[object]", value) if isinstance(value, list) else [value]
        values = below
    return [item for item in values if item is not None]


def _part_of(attribute: Attribute, text: str) -> tuple[Attribute, ...] | None:
    part = attribute.part(text)
    return None if part is None else (part,)


_Find = Callable[[str], tuple[Attribute, ...] | None]


class _Parser:
    """A recursive descent through the tokens of one filter."""

    def __init__(self, text: str, find: _Find, kind: str) -> None:
        self._text, self._kind = text, kind
        self._find: _Find = find
        self._compared = 0
        self._at = 0
        self.next: tuple[str, str] | None = None
        if len(text) > LONGEST:
            self.wrong(f"it has more than {LONGEST} characters")
        self._advance()

    def wrong(self, why: str = "it is not as RFC 7644 section 3.4.2.2 defines") -> NoReturn:
        """Raise Refused."""
        refuse(self._kind, f"the filter is invalid: {why}")

    def take(self) -> tuple[str, str]:
        """Return the current token and read the next."""
        token = self.next
        if token is None:
            self.wrong()
        self._advance()
        return token

    def either(self, depth: int) -> Filter:
        """Parse alternatives, joined by `or`."""
        parts = [self._both(depth)]
        while self._word() == "or":
            self.take()
            parts.append(self._both(depth))
        return parts[0] if len(parts) == 1 else Or(parts)

    def _both(self, depth: int) -> Filter:
        parts = [self._one(depth)]
        while self._word() == "and":
            self.take()
            parts.append(self._one(depth))
        return parts[0] if len(parts) == 1 else And(parts)

    def _one(self, depth: int) -> Filter:
        if depth > DEPTH:
            self.wrong(f"it is nested more than {DEPTH} levels deep")
        if self._word() == "not":
            self.take()
            if self.next != ("sign", "("):
                self.wrong()
            return Not(self._one(depth + 1))
        if self.next == ("sign", "("):
            self.take()
            condition = self.either(depth + 1)
            self._close(")")
            return condition
        return self._comparison(depth)

    def _comparison(self, depth: int) -> Filter:
        kind, name = self.take()
        if kind != "word":
            self.wrong()
        path = self._find(name)
        if path is None:
            raise UnknownAttribute(name)
        self._compared += 1
        if self._compared > COMPARISONS:
            self.wrong(f"it has more than {COMPARISONS} comparisons")
        if self.next == ("sign", "[") and len(path) == 1 and path[0].parts:
            return self._element(path[0], depth)
        return self._compare(path)

    def _compare(self, path: tuple[Attribute, ...]) -> Compare:
        kind, operator = self.take()
        operator = operator.lower()
        if kind != "word" or operator not in {*_ORDER, "ne", "pr"}:
            self.wrong("it has no operator where one must be")
        if operator == "pr":
            return Compare(path, operator)
        return Compare(path, operator, self._literal(path, operator))

    def _element(self, attribute: Attribute, depth: int) -> Filter:
        self.take()
        outer = self._find
        self._find = lambda part: _part_of(attribute, part)
        condition = self.either(depth + 1)
        self._find = outer
        self._close("]")
        if self.next is not None and self.next[0] == "part":
            # Entra ID writes `emails[type eq "work"].value eq "…"`, which the grammar lacks.
            path = _part_of(attribute, self.take()[1][1:])
            if path is None:
                raise UnknownAttribute(attribute.name)
            condition = And((condition, self._compare(path)))
        return Element(attribute, condition)

    def _literal(self, path: tuple[Attribute, ...], operator: str) -> Literal:
        kind, text = self.take()
        value: Literal
        if kind == "text":
            value = cast("str", json.loads(text))
            if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
                self.wrong("a text contains U+0000 or half a surrogate pair")
        elif kind == "number":
            value = float(text) if "." in text else int(text)
        elif kind == "word" and text in _LITERALS:
            value = _LITERALS[text]
        else:
            self.wrong("a comparison needs a JSON value")
        last = path[-1].part("value") or path[-1]
        if last.type == "boolean":
            if isinstance(value, str):
                value = _LITERALS.get(value.lower(), value)
            if operator not in {"eq", "ne"} or isinstance(value, str):
                self.wrong(f"{last.name} is true or false")
        elif isinstance(value, bool) or (value is None and operator not in {"eq", "ne"}):
            self.wrong(f"{last.name} cannot be compared with this")
        return value

    def _close(self, sign: str) -> None:
        if self.take() != ("sign", sign):
            self.wrong()

    def _word(self) -> str:
        return self.next[1].lower() if self.next is not None and self.next[0] == "word" else ""

    def _advance(self) -> None:
        self.next = None
        while self._at < len(self._text):
            match = _TOKEN.match(self._text, self._at)
            if match is None:
                self.wrong()
            self._at = match.end()
            if match.lastgroup != "space":
                self.next = (match.lastgroup or "", match[0])
                return


MOST = 1_000
"""Maximum number of operations of one request."""

PATCH_COMPARISONS = 2_000
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
    members = {name.lower(): value for name, value in cast("Resource", body).items()}
    schemas, operations = members.get("schemas"), members.get("operations")
    if not isinstance(schemas, list) or _SCHEMA not in schemas:
        refuse("invalidSyntax", f"schemas must hold {_SCHEMA}")
    if not isinstance(operations, list) or not operations:
        refuse("invalidSyntax", "Operations must be a list of at least one operation")
    listed = cast("list[object]", operations)
    if len(listed) > MOST:
        refuse("invalidValue", f"one request takes at most {MOST} operations")
    changes = [change for operation in listed for change in _changes(operation, schema, left)]
    selections = [change.path.selection for change in changes if change.path.selection is not None]
    if sum(1 for selection in selections for _ in comparisons(selection)) > PATCH_COMPARISONS:
        refuse("tooMany", f"the paths of one request have at most {PATCH_COMPARISONS} comparisons")
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
    members = {name.lower(): value for name, value in cast("Resource", operation).items()}
    operator, path, value = members.get("op"), members.get("path"), members.get("value")
    operator = operator.lower() if isinstance(operator, str) else ""
    if operator not in _OPERATORS:
        refuse("invalidSyntax", "op must be add, replace or remove")
    if path is None or (isinstance(path, str) and path.lower() == schema.urn.lower()):
        yield from _pathless(operator, value, schema, left)
        return
    if not isinstance(path, str):
        refuse("invalidPath", "path must be text")
    parsed_path = _path(path, schema, left)
    if parsed_path is None:
        return
    if parsed_path.attribute.name == "id":
        refuse("mutability", "id cannot be changed")
    if parsed_path.is_read_only:
        left.add(parsed_path.where)
        return
    yield from _change(operator, parsed_path, value, left)


def _pathless(operator: str, value: object, schema: Schema, left: LeftOut) -> Iterator[Change]:
    if operator == "remove":
        refuse("noTarget", "remove needs a path")
    if not isinstance(value, dict):
        refuse("invalidValue", "an operation without a path needs an object as its value")
    for name, member in schema.flat(cast("Resource", value)):
        path = _path(name, schema, left)
        # Okta sends the whole resource, with its id.
        if path is not None and not path.is_read_only:
            yield from _change(operator, path, member, left)


def _path(text: str, schema: Schema, left: LeftOut) -> Path | None:
    path = parse_path(text, schema)
    if path is None and not schema.ignores(text.partition("[")[0]):
        left.add((shown_name(text),))
    return path


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
        typed_items = {(type(item), item) for item in listed}
        more = [e for e in cast("list[object]", value) if (type(e), e) not in typed_items]
        if len(listed) + len(more) > attribute.most:
            left.add(change.path.where)
        holder[attribute.name] = [*listed, *more][: attribute.most]
    else:
        holder[attribute.name] = value


def _apply_to_all(resource: Resource, change: Change, left: LeftOut) -> None:
    attribute = change.path.attribute
    before = cast("list[Resource]", resource.get(attribute.name) or [])
    values = cast("list[Resource]", change.value or [])
    if change.operator == "remove":
        gone = [value.get("value") for value in values]
        kept = [value for value in before if gone and value.get("value") not in gone]
        _put(resource, attribute, kept, left)
    elif change.operator == "replace":
        _put(resource, attribute, list(values), left)
    else:
        more = [value for value in values if value not in before]
        _put(resource, attribute, [*before, *more], left)


def _apply_to_each(resource: Resource, change: Change, left: LeftOut) -> None:
    attribute, part = change.path.attribute, change.path.part
    if part is None:
        raise TypeError("a part is named here")
    values: list[Resource] = cast("list[Resource]", resource.get(attribute.name) or [])
    if not values and change.operator != "remove":
        values = [{}]
    for value in values:
        _set(value, part, change, left)
    _put(resource, attribute, [value for value in values if value], left)


def _apply_to_selected(
    resource: Resource, change: Change, selection: Filter, left: LeftOut
) -> None:
    attribute, part = change.path.attribute, change.path.part
    values = cast("list[Resource]", resource.get(attribute.name) or [])
    selected = [value for value in values if matches(selection, value)]
    if not selected and change.operator != "remove":
        made = _described(selection)
        if made is None:
            left.add(change.path.where)
            return
        values, selected = [*values, made], [made]
    if change.operator == "remove" and part is None:
        _put(resource, attribute, [value for value in values if value not in selected], left)
        return
    for value in selected:
        if part is not None:
            _set(value, part, change, left)
        else:
            value.update(cast("Resource", change.value or {}))
    _put(resource, attribute, values, left)


def _described(selection: Filter) -> Resource | None:
    """Return the value that a selection such as `type eq "work"` describes; None if it does not."""
    parts = selection.parts if isinstance(selection, And) else (selection,)
    value: Resource = {}
    for condition in parts:
        if (
            not isinstance(condition, Compare)
            or condition.operator != "eq"
            or condition.value is None
        ):
            return None
        value[condition.path[-1].name] = condition.value
    return value


def _put(
    resource: Resource, attribute: Attribute, value: Resource | list[Resource], left: LeftOut
) -> None:
    if not value:
        resource.pop(attribute.name, None)
        return
    primaries = [e for e in value if isinstance(e, dict) and e.get("primary") is True]
    for primary in primaries[:-1]:
        # The last value marked as primary is the primary one (RFC 7644 section 3.5.2).
        primary["primary"] = False
    if isinstance(value, list) and len(value) > _MOST_VALUES:
        left.add((attribute.name,))
        value = sorted(value, key=lambda item: item.get("primary") is not True)[:_MOST_VALUES]
    resource[attribute.name] = value
