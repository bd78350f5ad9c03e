"""What a resource object is: its shape, its scopes, its owner, where it lives, what can be done."""

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from functools import cached_property
from typing import get_type_hints

import msgspec

Document = Mapping[str, object]
"""A JSON object."""


class OwnedBy(StrEnum):
    """Whose data it is, and so who may call."""

    USER = "user"
    CLIENT = "client"


class Home(StrEnum):
    """Where it is kept."""

    HERE = "here"
    """In the resource server's own database."""
    ISSUER = "issuer"
    """At the authorization server, which is asked over HTTP."""


class Verb(StrEnum):
    """What can be done to an object."""

    LIST = "list"
    READ = "read"
    CREATE = "create"
    REPLACE = "replace"
    CHANGE = "change"
    DELETE = "delete"

    @property
    def writes(self) -> bool:
        """Whether it needs the scope for writing."""
        return self not in (Verb.LIST, Verb.READ)


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field: a JSON pointer (RFC 6901) and a sentence."""

    pointer: str
    detail: str


class Invalid(Exception):
    """A document that does not fit: every field that is wrong, and the reference if it has one."""

    def __init__(self, errors: Sequence[FieldError], reference: str = "") -> None:
        """Say no because of `errors`."""
        super().__init__(f"{len(errors)} fields are wrong")
        self.errors = tuple(errors)
        self.reference = reference


@dataclass(frozen=True)
class ResourceObject:
    """One kind of object under `/v2/<name>`.

    `shape` is a frozen dataclass of what callers may write; a default is what a field has when it
    is left out on creation or removed by a merge patch. A singleton has one record for each owner
    and no id in its URL. `either` names fields of which a replacement needs any one.
    """

    name: str
    shape: type
    verbs: frozenset[Verb]
    reads: str
    """The sentence of the scope `<name>:read`, such as "read your notes"."""
    writes: str = ""
    """The same for `<name>:write`."""
    owned_by: OwnedBy = OwnedBy.USER
    home: Home = Home.HERE
    singleton: bool = False
    either: tuple[frozenset[str], ...] = ()

    def scopes(self, verb: Verb) -> tuple[str, ...]:
        """The scopes of which any one allows `verb`, the narrowest first."""
        word = "write" if verb.writes else "read"
        narrow = f"{self.name}:{word}"
        # A client's own record is no user's data: `read` says nothing about it.
        return (narrow, word) if self.owned_by is OwnedBy.USER else (narrow,)

    @cached_property
    def _types(self) -> Mapping[str, object]:
        return get_type_hints(self.shape, include_extras=True)

    @cached_property
    def _defaults(self) -> Mapping[str, object]:
        return {
            field.name: field.default
            for field in fields(self.shape)
            if field.default is not MISSING and field.default is not msgspec.UNSET
        }

    @cached_property
    def _optional(self) -> frozenset[str]:
        return frozenset(name for group in self.either for name in group)

    def created(self, given: Document) -> Document:
        """The whole document that `given` creates, defaults filled in. Raises Invalid."""
        errors, values = self._convert(given)
        errors += [
            FieldError(_pointer(name), "this field is required")
            for name in self._types
            if name not in given and name not in self._defaults and name not in self._optional
        ]
        if errors:
            raise Invalid(errors)
        return self._in_order({**self._defaults, **values})

    def replaced(self, given: Document) -> Document:
        """The whole document, which must name every field. Raises Invalid."""
        errors, values = self._convert(given)
        errors += [
            FieldError(_pointer(name), "a PUT names every field; use PATCH to change some")
            for name in self._types
            if name not in given and name not in self._optional
        ]
        errors += [
            FieldError(_pointer(min(group)), f"a PUT names one of: {', '.join(sorted(group))}")
            for group in self.either
            if not any(name in given for name in group)
        ]
        if errors:
            raise Invalid(errors)
        return self._in_order(values)

    def changes(self, patch: Document) -> Document:
        """The fields that a merge patch changes (RFC 7396). Raises Invalid.

        null removes: the field gets its default, and one that has none cannot be removed.
        """
        removed = [name for name, value in patch.items() if value is None and name in self._types]
        errors, values = self._convert(
            {name: value for name, value in patch.items() if name not in removed}
        )
        errors += [
            FieldError(_pointer(name), "this field cannot be removed")
            for name in removed
            if name not in self._defaults
        ]
        if errors:
            raise Invalid(errors)
        return {**values, **{name: self._defaults[name] for name in removed}}

    def _in_order(self, values: Document) -> Document:
        # Equal documents are equal bytes, in whatever order the fields were sent.
        return {name: values[name] for name in self._types if name in values}

    def _convert(self, given: Document) -> tuple[list[FieldError], dict[str, object]]:
        errors: list[FieldError] = []
        values: dict[str, object] = {}
        for name, value in given.items():
            if name not in self._types:
                errors.append(FieldError(_pointer(name), "there is no such field to write"))
                continue
            try:
                values[name] = msgspec.convert(value, type=self._types[name])
            except msgspec.ValidationError as error:
                errors.append(_error(name, str(error)))
        return errors, values


def _pointer(name: str) -> str:
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _error(name: str, message: str) -> FieldError:
    """What msgspec says about a value (`Expected `str`, got `int` - at `$[0].a``), at its place."""
    said, _, place = message.partition(" - at `$")
    inside = place.removesuffix("`").replace("[", "/").replace("]", "").replace(".", "/")
    detail = said.replace("`", "")
    return FieldError(_pointer(name) + inside, detail[:1].lower() + detail[1:])
