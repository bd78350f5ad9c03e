"""Strict JSON that every parser reads alike (RFC 8259 and I-JSON, RFC 7493)."""

import json
import re
from math import isfinite
from typing import cast

LARGEST = 2**53 - 1
"""The largest integer that every JSON parser represents exactly."""

DEEPEST = 8
"""Maximum nesting depth of arrays and objects."""

DEEPEST_FOREIGN = 64
"""Maximum nesting depth in an object of another issuer."""

_LONGEST_WHOLE = 40
"""Characters of the longest integers of others that are not read as floats."""

# Possessive, and the closing quote is optional: each character is examined at most once.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


def read_object(data: bytes) -> dict[str, object] | None:
    """Parse a JSON object; return None unless every parser would read it alike.

    UTF-8 without a BOM, no duplicate names, integers below 2**53, no infinity, no lone surrogate,
    no NUL, at most 8 levels. Limit the size before calling: the work is proportional to it.
    """
    return _read(data, DEEPEST, _DECODER)


def read_foreign_object(data: bytes) -> dict[str, object] | None:
    """Parse a JSON object that another issuer signed; None if parsers could disagree about it.

    As `read_object`, but with up to 64 levels and integers of any size.
    """
    return _read(data, DEEPEST_FOREIGN, _FOREIGN)


def _read(data: bytes, deepest: int, decoder: json.JSONDecoder) -> dict[str, object] | None:
    try:
        text = data.decode("utf-8")
        if _depth(text) > deepest:
            return None
        value: object = decoder.decode(text)
        if "\\u" in text:
            # Only escapes can produce a lone surrogate.
            json.dumps(value, ensure_ascii=False).encode("utf-8")
            if "\\u0000" in text:
                return None
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def _depth(text: str) -> int:
    most = text.count("{") + text.count("[")
    if most <= DEEPEST:
        return most
    level = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        level += 1 if bracket in "[{" else -1
        deepest = max(deepest, level)
    return deepest


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name is there twice")
    return members


def _whole(text: str) -> int:
    # The length first: converting a long number takes quadratic time.
    if len(text) > len(str(-LARGEST)) or abs(int(text)) > LARGEST:
        raise ValueError("the number is too large")
    return int(text)


def _broken(text: str) -> float:
    number = float(text)
    if not isfinite(number):
        raise ValueError("the number is not finite")
    return number


def _refuse(text: str) -> object:
    raise ValueError("NaN and Infinity are not JSON")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_int=_whole, parse_float=_broken, parse_constant=_refuse
)
_FOREIGN = json.JSONDecoder(
    object_pairs_hook=_pairs,
    parse_int=lambda text: int(text) if len(text) <= _LONGEST_WHOLE else _broken(text),
    parse_float=_broken,
    parse_constant=_refuse,
)
