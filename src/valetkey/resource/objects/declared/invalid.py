"""Errors in declared object files, and the rules that every declared object follows."""

import re
from dataclasses import is_dataclass
from pathlib import Path

import msgspec

from valetkey.kernel.shapes.json_schema import NotLocal
from valetkey.kernel.shapes.shape import RESERVED
from valetkey.resource.objects import OBJECTS
from valetkey.resource.requests.paging import RESERVED as IN_QUERIES
from valetkey.resource.resource_object import Backend, ResourceObject, Verb
from valetkey.resource.storage.lists import CHANGED

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)
_SENTENCE = re.compile(r"[a-z][^\x00-\x1f\x7f<>]{2,98}[^\s.!]")
_MOST_LISTS = 24
_TAKEN = frozenset(("read", "write", *(each.name for each in OBJECTS)))


class InvalidDeclaration(Exception):
    """An error in a file; `right` says what would be valid."""

    def __init__(self, reason: str, right: str) -> None:
        """Store `reason` and what would be valid."""
        super().__init__(reason)
        self.right = right


def check(declared: ResourceObject, file: Path) -> ResourceObject:
    """Return `declared` if it follows the rules. Raises InvalidDeclaration."""
    name = file.stem
    if _NAME.fullmatch(name) is None:
        raise InvalidDeclaration(
            f"{name!r} is not a valid name for an object",
            "call the file by a word of lower-case letters, digits, _ and -, such as books.json",
        )
    if declared.name != name:
        raise InvalidDeclaration(
            f"it declares {declared.name!r}", f"the file's name is the object's: {name!r}"
        )
    if name in _TAKEN:
        raise InvalidDeclaration(
            f"{name!r} comes with Valetkey", "choose another name for the file"
        )
    _check_words(declared)
    if declared.home is not Backend.HERE or declared.singleton or declared.either:
        raise InvalidDeclaration(
            "home, singleton and either are not for declared objects", "leave them out"
        )
    _check_fields(declared)
    _check_lists(declared)
    if declared.sunset and (declared.deprecated is None or declared.sunset < declared.deprecated):
        raise InvalidDeclaration(
            "its sunset is not after its deprecation", "set deprecated to an earlier day"
        )
    return declared


def _check_words(declared: ResourceObject) -> None:
    if not declared.verbs:
        raise InvalidDeclaration("it has no verbs", f"name some of: {', '.join(Verb)}")
    for word, sentence, needed in (
        ("reads", declared.reads, True),
        ("writes", declared.writes, any(verb.writes for verb in declared.verbs)),
    ):
        if needed and _SENTENCE.fullmatch(sentence) is None:
            raise InvalidDeclaration(
                f"{word} is not the sentence that says what its scope is for",
                f'finish "This app wants to …": {word} = "read your {declared.name}"',
            )
        if sentence and not needed:
            raise InvalidDeclaration(
                f"nothing of it can be written, but it has {word}", f"leave out {word}"
            )


def _check_fields(declared: ResourceObject) -> None:
    shape = declared.shape
    if isinstance(shape, type) and not is_dataclass(shape):
        raise InvalidDeclaration(
            "its shape is not a dataclass", "write @dataclass(frozen=True) above it"
        )
    try:
        fields = declared.fields
        taken = [name for name in fields.names if name in RESERVED]
        errors, _ = fields.validate(fields.defaults)
        schema = fields.schema
    except (TypeError, NameError, ValueError, NotLocal, msgspec.MsgspecError) as reason:
        raise InvalidDeclaration(
            f"its fields cannot be checked: {reason}", "use types that JSON has"
        ) from None
    if taken or not schema.get("properties"):
        detail = f"the server sets {taken[0]} of every object" if taken else "it has no fields"
        raise InvalidDeclaration(detail, "declare the fields that callers write")
    if errors:
        where = f"{errors[0].pointer}: {errors[0].detail}"
        raise InvalidDeclaration(f"a default is not valid: {where}", "change the default")


def _check_lists(declared: ResourceObject) -> None:
    simple = declared.scalars
    for word, names in (("sort", declared.sort), ("filter", declared.filter)):
        for name in names:
            if name not in simple and (word, name) != ("sort", CHANGED):
                raise InvalidDeclaration(
                    f"{word} names {name!r}, which is not a field of text, number or boolean",
                    "name fields that always hold one simple thing",
                )
        if len(set(names)) != len(names):
            raise InvalidDeclaration(f"{word} names a field twice", "name it once")
    if taken := [name for name in declared.filter if name in IN_QUERIES]:
        raise InvalidDeclaration(
            f"a query string uses {taken[0]!r}", "call the field by another name"
        )
    if len(declared.orders.names) > _MOST_LISTS:
        raise InvalidDeclaration(
            f"sort and filter together make {len(declared.orders.names)} lists",
            f"every change writes into each of them: {_MOST_LISTS} at most",
        )
    if (declared.sort or declared.filter) and Verb.LIST not in declared.verbs:
        raise InvalidDeclaration(
            "it has sort or filter, but there are no lists of it", 'add the verb "list"'
        )
