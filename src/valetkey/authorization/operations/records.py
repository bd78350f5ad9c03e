"""Base types of records and of files."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.config.settings import Settings
from valetkey.kernel.preconditions import etag_of

Moment = Annotated[
    int, msgspec.Meta(description="Seconds since 1970-01-01T00:00:00Z.", ge=0, le=1 << 53)
]
Seconds = Annotated[int, msgspec.Meta(ge=1, le=31_536_000)]
GRANT_TYPE_ENUM = "grant types"
"""Stands in the schema of an input for the grant types, which are known with the features."""

Anything = Annotated[object, msgspec.Meta(extra_json_schema={"description": "Any JSON."})]
Line = Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=500)]
Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]([ -~]{0,78}[!-~])?$", max_length=80)]


def change_of(kind: type[msgspec.Struct], name: str, text: str) -> type[msgspec.Struct]:
    """Return the body of a change of `kind`: absent members stay as they are.

    `text` is its description in the OpenAPI document; see `changes_in`.
    """
    members = get_type_hints(kind, include_extras=True).items()
    return msgspec.defstruct(
        name,
        [(member, type_ | UnsetType, UNSET) for member, type_ in members],
        namespace={"__doc__": text},
        frozen=True,
        forbid_unknown_fields=True,
    )


def changes_in(change: msgspec.Struct) -> dict[str, Any]:
    """Return the members that the body of a change has."""
    members = msgspec.structs.asdict(change).items()
    return {name: value for name, value in members if value is not UNSET}


class ListMembers(msgspec.Struct, frozen=True):
    """The members of every list besides its items."""

    next: str | None
    """The value of `cursor` for the next page; null at the end."""


class Done(msgspec.Struct, frozen=True):
    """Whether anything changed."""

    changed: bool


class Upload(msgspec.Struct, frozen=True):
    """The body of an operation that takes a file.

    `media` are its media types with the schema of each; `largest` is its maximum size in bytes.
    """

    media: Mapping[str, Mapping[str, object]]
    largest: Callable[[Settings], int]


class UploadedFile(msgspec.Struct, frozen=True):
    """A file that was sent: its media type, and its unchecked bytes."""

    media: str
    content: bytes


def tag_of(value: object) -> str:
    """Return the ETag of a record as shown."""
    return etag_of(msgspec.json.encode(value))
