"""What people read about a text that a pattern refuses: a sentence, never the pattern."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import pytest
from msgspec import inspect

from valetkey.authorization.features import OPERATIONS
from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.operations.table import LOCAL
from valetkey.authorization.protocol.register.fault_texts import SENTENCES
from valetkey.authorization.protocol.register.faults import (
    CODE,
    NO_CONTROLS,
    REASONS,
    faults_of,
)
from valetkey.authorization.site.admin.input_fields import read_input
from valetkey.kernel.shapes import MUST, requirement
from valetkey.resource.objects.identity import Account

INPUTS = {
    operation.input.__name__: operation.input
    for operation in (*OPERATIONS, *LOCAL)
    if operation.input is not None
}


def texts(kind: inspect.Type, extra: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the pattern of each text inside of a type, with what is declared beside it."""
    match kind:
        case inspect.Metadata():
            yield from texts(kind.type, kind.extra or {})
        case inspect.StrType(pattern=str(pattern)):
            yield pattern, extra
        case inspect.UnionType():
            for option in kind.types:
                yield from texts(option, extra)
        case inspect.ListType():
            yield from texts(kind.item_type, {})
        case inspect.DictType():
            yield from texts(kind.key_type, {})
            yield from texts(kind.value_type, {})
        case inspect.StructType() | inspect.DataclassType():
            for field in kind.fields:
                yield from texts(field.type, {})
        case _:
            pass


def test_every_pattern_of_an_input_has_a_sentence() -> None:
    patterns = [
        (name, pattern, extra)
        for name, kind in {**INPUTS, "Account": Account}.items()
        for pattern, extra in texts(inspect.type_info(kind), {})
        if pattern != NO_CONTROLS
    ]
    assert len(patterns) > len(INPUTS) / 2
    assert [(name, pattern) for name, pattern, extra in patterns if MUST not in extra] == []
    codes = {str(extra[CODE]) for _, _, extra in patterns if CODE in extra}
    assert codes <= REASONS.keys()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("EmailChange", {"email": "a b@c"}, "ada@example.com"),
        ("GroupWanted", {"name": "Büro Köln"}, "apps receive this name"),
        ("WebhookWanted", {"url": "https://a.example", "events": ["a,b"]}, "user.registered"),
        ("ApiWanted", {"identifier": "x", "scopes": {"a b": "c"}}, "calendar:read"),
        ("BrandChange", {"accent": "1a73e8"}, "#1a73e8"),
    ],
)
def test_refused_text_is_explained_without_its_pattern(
    name: str, value: dict[str, object], sentence: str
) -> None:
    kind = INPUTS[name]
    with pytest.raises(msgspec.ValidationError) as refused:
        msgspec.convert(value, kind)
    details = [error.detail for error in faults_of(refused.value, value, kind)]
    assert any(sentence in detail for detail in details), details
    assert not any("^" in detail or "match" in detail for detail in details)


def test_pattern_without_a_sentence_is_explained_by_its_example() -> None:
    message = "Expected `str` matching regex '^[a-z]$'"
    kind = Annotated[str, msgspec.Meta(pattern="^[a-z]$", examples=["q"])]
    assert requirement(message, kind) == "must have the form of q"
    assert requirement(message) == "must have the form that the schema describes"


def leaves(kind: type[msgspec.Struct]) -> Iterator[tuple[str, inspect.Type]]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    yield from ((field.encode_name, field.type) for field in info.fields)


@pytest.mark.parametrize("kind", INPUTS.values(), ids=INPUTS)
def test_form_says_what_is_wrong_with_every_field(kind: type[msgspec.Struct]) -> None:
    """Whatever is typed, no field answers that its value is missing or invalid."""
    for name, _ in leaves(kind):
        for text in ("ä ö", "ä ö" * 3_000, "\x01 \x01", "9" * 30, "-1", "x\n" * 3_000, "{"):
            try:
                read_input(kind, {name: ("", "")}, {name: text})
            except InvalidInput as invalid:
                for error in invalid.faults:
                    assert error.code in {*REASONS, *SENTENCES}, (name, text[:9], error)
            except (KeyError, TypeError):
                # A required field beside it, or an object that has fields of its own.
                pass
