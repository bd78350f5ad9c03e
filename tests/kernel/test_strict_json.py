"""Strict JSON: one reading only."""

import json
from dataclasses import dataclass

import pytest

from tests.vectors.rows import rows
from valetkey.kernel.strict_json import DEEPEST, read_object


@dataclass(frozen=True, slots=True)
class _Refused:
    why: str
    text: str = ""
    hex: str = ""


@dataclass(frozen=True, slots=True)
class _Accepted:
    text: str


@pytest.mark.parametrize(
    "row", rows("strict_json.toml", "refused", _Refused), ids=lambda row: row.why
)
def test_ambiguous_json_is_refused(row: _Refused) -> None:
    data = bytes.fromhex(row.hex) if row.hex else row.text.encode()
    assert read_object(data) is None


@pytest.mark.parametrize("row", rows("strict_json.toml", "accepted", _Accepted))
def test_unambiguous_json_is_read(row: _Accepted) -> None:
    assert read_object(row.text.encode()) == json.loads(row.text)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("levels", [DEEPEST + 1, 1_000, 20_000])
def test_deeply_nested_json_is_refused(opening: bytes, levels: int) -> None:
    assert read_object(b'{"a":' + opening * levels) is None


def test_very_long_numbers_are_refused() -> None:
    assert read_object(b'{"exp":' + b"9" * 16_000 + b"}") is None
    assert read_object(b'{"exp":-' + b"9" * 400 + b"}") is None


def test_visually_similar_member_names_are_not_duplicates() -> None:
    assert read_object('{"a":1,"а":2,"a\u0301":3,"á":4}'.encode()) is not None
