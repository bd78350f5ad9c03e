"""What the document cannot say about requests, for the tool that makes them up from it."""

import re
from itertools import count
from typing import Any, cast

import schemathesis

_KEY = re.compile(r"[!-~]{1,255}")
_numbers = count()
_JSON_PATCH = "application/json-patch+json"


@schemathesis.hook
def map_case(
    _: schemathesis.HookContext, case: "schemathesis.Case[Any]"
) -> "schemathesis.Case[Any]":
    """Give each POST a key of its own: a key that is used again gets the answer of the first."""
    headers = cast("dict[str, str] | None", case.headers)
    if headers and _KEY.fullmatch(str(headers.get("Idempotency-Key", ""))):
        headers["Idempotency-Key"] = f"key-{next(_numbers)}"
    return case


@schemathesis.hook
def filter_case(_: schemathesis.HookContext, case: "schemathesis.Case[Any]") -> bool:
    """Leave out what looks right and cannot be: cursors of nobody, patches of what is not there."""
    return "cursor" not in (case.query or {}) and case.media_type != _JSON_PATCH
