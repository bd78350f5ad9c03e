"""Explanations of error codes: one entry per member of ErrorCode, read from errors.toml."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from types import MappingProxyType

import msgspec

from valetkey.kernel.refusal import ErrorCode


class Reader(StrEnum):
    """The audience of a remedy."""

    VISITOR = "visitor"
    DEVELOPER = "developer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Remedy:
    """How one kind of reader can fix an error, in one or two sentences."""

    reader: Reader
    advice: str
    #: The command that helps, without `valetkey`; "" for none.
    command: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """A request, response or command to compare with; `code` is not translated."""

    caption: str
    code: str


@dataclass(frozen=True, slots=True)
class ErrorText:
    """The explanation of an error code. Its sentences are message ids of the catalogue."""

    #: One sentence, shown in the list of all codes.
    meaning: str
    causes: tuple[str, ...]
    #: The reader who usually has to act comes first.
    remedies: tuple[Remedy, ...]
    example: Example
    #: Where the code is defined: "RFC 6749, section 5.2".
    specification: str
    #: The URL of that section; "" for an RFC, whose URL follows from its number.
    defined_at: str = ""

    @property
    def specification_url(self) -> str:
        """The URL of the section that defines the code."""
        if self.defined_at:
            return self.defined_at
        number, _, section = self.specification.removeprefix("RFC ").partition(", section ")
        return f"https://www.rfc-editor.org/rfc/rfc{number}.html#section-{section}"


def _read() -> Mapping[ErrorCode, ErrorText]:
    text = (
        files("valetkey.authorization.site.errors")
        .joinpath("errors.toml")
        .read_text(encoding="utf-8")
    )
    return MappingProxyType(msgspec.convert(tomllib.loads(text), dict[ErrorCode, ErrorText]))


TEXTS: Mapping[ErrorCode, ErrorText] = _read()
"""The text of each code."""
