"""notes: short texts of a user; the example of an object that an operator declares."""

from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from valetkey.resource.resource_object import ResourceObject, Verb


@dataclass(frozen=True, slots=True)
class Note:
    """A note: a title and a text."""

    title: Annotated[str, Meta(min_length=1, max_length=200, examples=["Shopping"])]
    text: Annotated[str, Meta(max_length=100_000, examples=["Milk, bread"])] = ""


OBJECT = ResourceObject(
    "notes",
    Note,
    frozenset(Verb),
    reads="read your notes",
    writes="change your notes",
)
