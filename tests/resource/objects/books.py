"""Objects as an operator writes them, for the tests of what is made of them."""

from pathlib import Path

BOOK = """
from dataclasses import dataclass
from typing import Annotated

from msgspec import Meta

from valetkey.resource.resource_object import ResourceObject


@dataclass(frozen=True, slots=True)
class Book:
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    pages: Annotated[int, Meta(ge=1)] | None = None


OBJECT = ResourceObject("books", Book, reads="read your books", writes="change your books")
"""

TASK = """{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "$defs": {"label": {"type": "string", "maxLength": 8}},
  "properties": {
    "title": {"type": "string", "minLength": 1, "maxLength": 100},
    "state": {"enum": ["open", "done"], "default": "open"},
    "due": {"type": "string", "format": "date-time"},
    "labels": {"type": "array", "items": {"$ref": "#/$defs/label"}, "default": []},
    "place": {
      "type": "object",
      "properties": {"room": {"type": "string"}, "floor": {"type": "integer"}},
      "additionalProperties": false
    },
    "code": {"type": "string", "pattern": "^(a+)+$"}
  },
  "required": ["title"],
  "x-valetkey": {"reads": "read your tasks", "writes": "change your tasks"}
}"""

DIARY = """{
  "type": "object",
  "properties": {"text": {"type": "string"}},
  "required": ["text"],
  "x-valetkey": {
    "reads": "read your diary",
    "writes": "write into your diary",
    "verbs": ["list", "read", "create"]
  }
}"""

LETTERBOX = """{
  "type": "object",
  "properties": {"text": {"type": "string"}},
  "required": ["text"],
  "x-valetkey": {
    "reads": "see nothing at all",
    "writes": "drop letters into the box",
    "verbs": ["create"]
  }
}"""

STOCK = """{
  "type": "object",
  "properties": {
    "article": {"type": "string", "minLength": 1, "maxLength": 40},
    "left": {"type": "integer", "minimum": 0, "maximum": 1000000}
  },
  "required": ["article", "left"],
  "x-valetkey": {
    "reads": "read its stock",
    "writes": "change its stock",
    "owned_by": "client",
    "sort": ["left"],
    "filter": ["article"]
  }
}"""


def write_objects(directory: Path, **files: str) -> Path:
    """A directory `objects` with these files; `books_py` is books.py."""
    folder = directory / "objects"
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        stem, _, suffix = name.rpartition("_")
        (folder / f"{stem}.{suffix}").write_text(text)
    return folder
