"""Where a statement ends, what its parameters are, what may be bound."""

from enum import IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.database.engine import UnstorableValue, numbered, parameters, split, storable


class Word(StrEnum):
    ONE = "one"


class Number(IntEnum):
    SEVEN = 7


@pytest.mark.parametrize(
    ("script", "statements"),
    [
        ("", ()),
        ("-- nothing; at all\n/* nor; here */ ;;", ()),
        ("SELECT 1", ("SELECT 1",)),
        ("SELECT 1; SELECT 2;", ("SELECT 1", "SELECT 2")),
        ("SELECT ';' ; SELECT 'it''s; fine'", ("SELECT ';'", "SELECT 'it''s; fine'")),
        ('CREATE TABLE "a;b" (c TEXT);', ('CREATE TABLE "a;b" (c TEXT)',)),
        ("SELECT 1 -- one; two\n; SELECT 2", ("SELECT 1 -- one; two", "SELECT 2")),
        ("SELECT /* ; ' */ 1; SELECT 2", ("SELECT /* ; ' */ 1", "SELECT 2")),
    ],
)
def test_a_script_is_split_where_statements_end(script: str, statements: tuple[str, ...]) -> None:
    assert split(script) == statements


@pytest.mark.parametrize(
    ("sql", "text", "names"),
    [
        ("SELECT 1", "SELECT 1", ()),
        ("SELECT :a, :b_2, :a", "SELECT $1, $2, $1", ("a", "b_2")),
        ("SELECT ':a', \":b\" -- :c\n", "SELECT ':a', \":b\" -- :c\n", ()),
        ("SELECT a::text, :b", "SELECT a::text, $1", ("b",)),
        ("SELECT '100 %' , 5 % :n", "SELECT '100 %' , 5 % $1", ("n",)),
        ("VALUES(:a,:b)", "VALUES($1,$2)", ("a", "b")),
    ],
)
def test_named_parameters_are_numbered(sql: str, text: str, names: tuple[str, ...]) -> None:
    assert numbered(sql) == (text, names)
    assert parameters(sql) == names


def test_text_integers_and_none_are_storable() -> None:
    params: dict[str, object] = {"a": "é", "b": -(2**63), "c": None, "d": 2**63 - 1}
    assert storable(params) == params


def test_a_member_of_an_enumeration_is_stored_as_its_value() -> None:
    plain = storable({"word": Word.ONE, "number": Number.SEVEN, "nothing": None})
    assert plain == {"word": "one", "number": 7, "nothing": None}
    assert [type(value) for value in plain.values()] == [str, int, type(None)]


@pytest.mark.parametrize(
    "value", [True, 1.0, b"", "\0", "\udfff", 2**63, -(2**63) - 1, (), float("nan")]
)
def test_other_types_are_unstorable_and_the_message_omits_the_value(value: object) -> None:
    with pytest.raises(UnstorableValue, match=r"^secret (is a|contains|does not fit)"):
        storable({"first": "fine", "secret": value})


@given(st.text())
def test_a_text_is_storable_if_it_is_utf_8_without_nul(text: str) -> None:
    try:
        keeps = b"\0" not in text.encode()
    except UnicodeEncodeError:
        keeps = False
    try:
        storable({"text": text})
    except UnstorableValue:
        assert not keeps
    else:
        assert keeps
