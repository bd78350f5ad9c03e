"""What each error code means: one text per member of ErrorCode."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from valetkey.kernel.refusal import ErrorCode


@dataclass(frozen=True, slots=True)
class ErrorText:
    """A code in plain words, for the developer who met it. No text holds a percent sign."""

    #: One sentence, shown in the list of all codes.
    meaning: str
    causes: tuple[str, ...]
    remedies: tuple[str, ...]
    #: Where it is defined, and the address of that section.
    specification: str
    specification_url: str
