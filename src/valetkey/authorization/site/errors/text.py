"""What the explanation of an error code is made of."""

from dataclasses import dataclass
from enum import StrEnum


class Reader(StrEnum):
    """Whom a piece of advice is for."""

    VISITOR = "visitor"
    DEVELOPER = "developer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Remedy:
    """What one kind of reader can do about it, in a sentence or two."""

    reader: Reader
    advice: str
    #: The command that does it, without `valetkey`; "" for none.
    command: str = ""


@dataclass(frozen=True, slots=True)
class Example:
    """Something to compare with or to paste; `code` is not translated."""

    caption: str
    code: str


@dataclass(frozen=True, slots=True)
class ErrorText:
    """A code in plain words. Its sentences are message ids of the catalogue."""

    #: One sentence, shown in the list of all codes.
    meaning: str
    causes: tuple[str, ...]
    #: The reader who usually has to act comes first.
    remedies: tuple[Remedy, ...]
    example: Example
    #: Where it is defined, and the address of that section.
    specification: str
    specification_url: str


def rfc(number: int, section: str) -> tuple[str, str]:
    """The name and the address of a section of an RFC."""
    address = f"https://www.rfc-editor.org/rfc/rfc{number}.html#section-{section}"
    return f"RFC {number}, section {section}", address


def developer(advice: str) -> Remedy:
    """For whoever builds the app."""
    return Remedy(Reader.DEVELOPER, advice)


def operator(advice: str, command: str = "") -> Remedy:
    """For whoever runs the server, with the command that helps, if there is one."""
    return Remedy(Reader.OPERATOR, advice, command)


def visitor(advice: str) -> Remedy:
    """For whoever uses the app."""
    return Remedy(Reader.VISITOR, advice)
