"""Parse JSON bodies strictly: no duplicate names, NaN, deep nesting or ambiguous numbers.

RFC 8259 leaves the handling of these to the implementation; I-JSON (RFC 7493) does not.
"""

import json
import re
from collections.abc import Iterable
from math import isfinite
from typing import NoReturn, cast

from valetkey.kernel.refusal import ErrorCode, Refused

BYTES = 1024 * 1024
DEPTH = 32

_EXACT = 2**53
_DIGITS = 17  # of 2**53 and its sign
# Possessive, and the closing quote is optional: each byte is examined at most once.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_NO_BRACKET = bytes(set(range(256)) - set(b"[]{}"))
_ALIKE = bytes.maketrans(b"{}", b"[]")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")


def read_json(body: bytes) -> object:
    """Return the value of a JSON body: None, bool, int, float, str, list or dict.

    Raises Refused (invalid_request) for anything but UTF-8 without BOM, more than 1 MiB, more than
    32 levels, a duplicate name in one object, NaN and Infinity, integers beyond 2**53, numbers
    beyond a double, and strings with U+0000 or a lone surrogate, which not every database can
    store.
    """
    if len(body) > BYTES:
        _refuse("the body has more than 1 MiB", "json.too_large")
    if _depth_exceeds(body):
        _refuse("the body is nested more than 32 levels deep", "json.too_deep")
    try:
        value = cast(
            "object",
            json.loads(
                body.decode(),
                object_pairs_hook=_object,
                parse_constant=_constant,
                parse_int=_integer,
                parse_float=_number,
            ),
        )
    except UnicodeDecodeError:
        _refuse("the body is not UTF-8", "json.not_utf8")
    except (json.JSONDecodeError, RecursionError):
        _refuse("the body is not JSON", "json.malformed")
    # These characters can only be written as escapes.
    if b"\\u" in body:
        _check_text(value)
    return value


def _depth_exceeds(body: bytes) -> bool:
    if body.count(b"[") + body.count(b"{") <= DEPTH:
        return False
    brackets = _STRING.sub(b"", body).translate(_ALIKE, _NO_BRACKET)
    for _ in range(DEPTH):
        if b"[]" not in brackets:
            break
        brackets = brackets.replace(b"[]", b"")
    # What did not collapse is nested deeper, or is invalid JSON, which the parser reports better.
    return brackets.count(b"[") > DEPTH or b"[]" in brackets


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        _refuse("a name appears twice in one object", "json.duplicate")
    return found


def _constant(_: str) -> NoReturn:
    _refuse("NaN and Infinity are not JSON", "json.constant")


def _integer(digits: str) -> int:
    # Length first: int() is slow for thousands of digits and then fails.
    if len(digits) <= _DIGITS:
        number = int(digits)
        if -_EXACT <= number <= _EXACT:
            return number
    return _refuse("an integer is beyond 2**53", "json.integer")


def _number(digits: str) -> float:
    number = float(digits)
    if not isfinite(number):
        _refuse("a number is too large", "json.number")
    return number


def _check_text(value: object) -> None:
    if isinstance(value, str):
        if _NOT_TEXT.search(value):
            _refuse("a string contains U+0000 or half a surrogate pair", "json.text")
    elif isinstance(value, dict):
        for name, item in cast("dict[str, object]", value).items():
            _check_text(name)
            _check_text(item)
    elif isinstance(value, list):
        for item in cast("Iterable[object]", value):
            _check_text(item)


def _refuse(description: str, check: str) -> NoReturn:
    # `from None`: a parser's error contains the text that could not be parsed.
    raise Refused.because(ErrorCode.INVALID_REQUEST, description, check) from None
