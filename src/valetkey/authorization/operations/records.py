"""Base types of several records."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.inputs import NO_CONTROLS
from valetkey.kernel.preconditions import etag_of

Moment = Annotated[
    int, msgspec.Meta(description="Seconds since 1970-01-01T00:00:00Z.", ge=0, le=1 << 53)
]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
Anything = Annotated[object, msgspec.Meta(extra_json_schema={"description": "Any JSON."})]
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
