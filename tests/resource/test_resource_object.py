"""What an object takes and what it says about the rest."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import pytest
from msgspec import Meta

from valetkey.kernel.shapes import Document, FieldError, Invalid
from valetkey.resource.objects import identity, notes
from valetkey.resource.resource_object import ResourceObject, Verb


@dataclass(frozen=True, slots=True)
class _Shape:
    title: Annotated[str, Meta(max_length=5)]
    tags: tuple[Annotated[str, Meta(max_length=2)], ...] = ()
    stars: Annotated[int, Meta(ge=0, le=5)] = 3


_OBJECT = ResourceObject("things", _Shape, frozenset(Verb), reads="read your things")


def _errors(judge: Callable[[Document], Document], document: Document) -> tuple[FieldError, ...]:
    with pytest.raises(Invalid) as invalid:
        judge(document)
    return invalid.value.errors


def test_new_object_has_defaults_and_fields_in_declared_order() -> None:
    made = _OBJECT.created({"stars": 5, "title": "a"})
    assert list(made.items()) == [("title", "a"), ("tags", ()), ("stars", 5)]


def test_replacement_requires_every_field() -> None:
    errors = _errors(_OBJECT.replaced, {"title": "a"})
    assert [error.pointer for error in errors] == ["/tags", "/stars"]
    whole = {"title": "a", "tags": ["x"], "stars": 0}
    assert _OBJECT.replaced(whole) == {**whole, "tags": ("x",)}


def test_null_in_a_patch_brings_the_default_back_where_there_is_one() -> None:
    assert _OBJECT.changes({"stars": None, "title": "b"}) == {"title": "b", "stars": 3}
    assert _OBJECT.changes({}) == {}
    errors = _errors(_OBJECT.changes, {"title": None, "nothing": None})
    assert {error.pointer for error in errors} == {"/title", "/nothing"}


def test_every_error_is_reported_with_its_pointer() -> None:
    document: Document = {"title": 7, "tags": ["ok", "long"], "stars": True, "x~/y": 1}
    errors = {error.pointer: error.detail for error in _errors(_OBJECT.created, document)}
    assert errors == {
        "/title": "must be a string, not an integer",
        "/tags/1": "must have at most 2 characters",
        "/stars": "must be an integer, not a boolean",
        "/x~0~1y": "this field cannot be written",
    }


def test_a_client_names_one_redirect_uri_or_several() -> None:
    one: Document = {"description": "", "redirect_uri": "https://a/cb"}
    assert identity.CLIENT.replaced(one) == one
    errors = _errors(identity.CLIENT.replaced, {"description": ""})
    assert [error.pointer for error in errors] == ["/redirect_uri"]
    nothing: Document = {"description": "", "redirect_uri": None}
    assert [e.pointer for e in _errors(identity.CLIENT.replaced, nothing)] == ["/redirect_uri"]


def test_scopes_read_and_write_do_not_apply_to_clients() -> None:
    assert notes.OBJECT.scopes(Verb.LIST) == ("notes:read", "read")
    assert notes.OBJECT.scopes(Verb.DELETE) == ("notes:write", "write")
    assert identity.CLIENT.scopes(Verb.REPLACE) == ("client:write",)


def test_integer_with_a_zero_fraction_is_accepted() -> None:
    assert _OBJECT.created({"title": "a", "stars": 4.0})["stars"] == 4
    errors = _errors(_OBJECT.created, {"title": "a", "stars": 4.5})
    assert [error.pointer for error in errors] == ["/stars"]
