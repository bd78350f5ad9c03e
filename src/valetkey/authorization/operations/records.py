"""Base types of several records."""

import re
from typing import Annotated

import msgspec

from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.kernel.preconditions import etag_of

Moment = Annotated[
    int, msgspec.Meta(description="Seconds since 1970-01-01T00:00:00Z.", ge=0, le=1 << 53)
]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
Anything = Annotated[object, msgspec.Meta(extra_json_schema={"description": "Any JSON."})]
NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
"""What a line of text may hold."""

Line = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=500)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]([ -~]{0,78}[!-~])?$", max_length=80)]


class Page(msgspec.Struct, frozen=True):
    """The members of every list besides its items."""

    next: str | None
    """What `after` takes to go on; null at the end."""


class Done(msgspec.Struct, frozen=True):
    """Whether anything changed."""

    changed: bool


def tag_of(value: object) -> str:
    """The ETag of a record as it is shown."""
    return etag_of(msgspec.json.encode(value))


_WHERE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([a-z_]+)|\[(\d+)\]|\[\.\.\.\]")


def fault_of(error: msgspec.ValidationError) -> MetadataError:
    """Return which field of an input is invalid, as in `redirect_uris/0`, and why."""
    message = str(error)
    where = _WHERE.search(message)
    path = "" if where is None else where[1]
    steps = [step[1] or step[2] or "" for step in _STEP.finditer(path)]
    detail = message[: where.start()] if where else message
    detail = detail.replace("Expected `str` matching regex", "must match")
    missing = re.search(r"missing required field `([a-z_]+)`", detail)
    if missing:
        return MetadataError("/".join([*steps, missing[1]]), "is missing")
    if "unknown field" in detail:
        return MetadataError("/".join(steps), "has a member that is unknown")
    return MetadataError("/".join(steps), detail)
