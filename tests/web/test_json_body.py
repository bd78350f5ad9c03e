"""Strict JSON: what two parsers could read differently is not read at all."""

import gc
import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.web.body import read_json


def test_json_body_is_decoded() -> None:
    body = '{"title": "ü", "n": [1, -2.5, true, null], "o": {}}'.encode()
    assert read_json(body) == {"title": "ü", "n": [1, -2.5, True, None], "o": {}}


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"{", id="half"),
        pytest.param(b"{} {}", id="two"),
        pytest.param(b"{'a': 1}", id="Python"),
        pytest.param(b'{"a":1,}', id="trailing comma"),
        pytest.param(b'{"a":1,"a":2}', id="duplicate"),
        pytest.param(b'[{"a":1,"\\u0061":2}]', id="duplicate in disguise"),
        pytest.param(b"NaN", id="NaN"),
        pytest.param(b"[-Infinity]", id="infinity"),
        pytest.param(b"1e999", id="infinite by exponent"),
        pytest.param(b"9007199254740993", id="beyond 2**53"),
        pytest.param(b"-9007199254740993", id="beyond -2**53"),
        pytest.param(b"1" * 5_000, id="5,000 digits"),
        pytest.param(b"\xef\xbb\xbf{}", id="BOM"),
        pytest.param('{"a":1}'.encode("utf-16"), id="UTF-16"),
        pytest.param(b'"\xff"', id="not UTF-8"),
        pytest.param(b'"\xed\xa0\x80"', id="surrogate bytes"),
        pytest.param(b'"\\ud800"', id="half a surrogate pair"),
        pytest.param(b'{"\\udfff":1}', id="half a pair in a name"),
        pytest.param(b'["x\\u0000"]', id="NUL"),
        pytest.param(b'"a\nb"', id="raw control"),
        pytest.param(b"[" * 33 + b"]" * 33, id="33 levels"),
        pytest.param(b'{"a":' * 33 + b"1" + b"}" * 33, id="33 objects"),
        pytest.param(b"[" * 20_000 + b"]" * 20_000, id="20,000 levels"),
        pytest.param(b"[" * 1_000_000, id="never closed"),
        pytest.param(b"}" * 100 + b"{" * 100, id="closed before opened"),
        pytest.param(b" " * 1_048_577, id="too large"),
    ],
)
def test_malformed_json_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(Refused) as caught:
        read_json(body)
    assert caught.value.refusal.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"9007199254740992", 2**53),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\\\u0000"', "\\u0000"),
        (b'"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["', "[" * 36),
        (b'["\\"", "]", "\\\\"]', ['"', "]", "\\"]),
    ],
)
def test_unusual_but_valid_json_is_read(body: bytes, value: object) -> None:
    assert read_json(body) == value


def test_thirty_two_nested_levels_are_accepted() -> None:
    assert read_json(b"[" * 32 + b"]" * 32) == json.loads("[" * 32 + "]" * 32)
    many = b"[" + b",".join([b"[[]]"] * 1_000) + b"]"
    assert len(json.loads(many)) == 1_000
    assert read_json(many) == json.loads(many)


@pytest.mark.parametrize(
    "body",
    [
        b"[" + b"[]," * 300_000 + b"[]]",
        b'"' + b'\\"' * 500_000,
        b'["' + b"\\\\" * 500_000,
        b'"",' * 300_000,
    ],
    ids=["brackets", "escaped quotes", "backslashes", "strings"],
)
def test_every_body_is_judged_within_a_second(body: bytes) -> None:
    # What earlier tests left would be looked through again and again.
    gc.freeze()
    try:
        started = time.process_time()
        with suppress(Refused):
            read_json(body)
        assert time.process_time() - started < 1
    finally:
        gc.unfreeze()


def test_a_refusal_does_not_carry_the_body() -> None:
    with pytest.raises(Refused) as caught:
        read_json(b'{"password": "canary"')
    assert caught.value.__suppress_context__


@given(st.binary(max_size=100))
def test_any_input_is_parsed_or_refused(body: bytes) -> None:
    try:
        value = read_json(body)
    except Refused:
        return
    assert json.loads(body) == value


_LEAF = st.none() | st.booleans() | st.integers(-(2**53), 2**53)
_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
_VALUES = st.recursive(
    _LEAF | _TEXT, lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner), max_leaves=20
)


@given(_VALUES)
def test_json_written_by_the_standard_library_is_read_back(value: object) -> None:
    assert read_json(json.dumps(value).encode()) == value
