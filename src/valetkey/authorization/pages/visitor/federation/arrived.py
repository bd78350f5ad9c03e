"""Somebody whom another server vouches for, and who has no account here yet."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class ArrivedPage:
    """Offer what is possible: an account of their own, or the one that they have.

    Posts `csrf`, `username` and `name`.
    """

    template: ClassVar[str] = "visitor/federation/arrived.html"

    provider: str
    #: How they are known over there; shown, never looked for.
    shown: str
    #: Where the form goes; empty where no account can be made.
    action: str
    csrf: str
    #: Where who has an account signs in to it.
    sign_in: str
    username: str = ""
    name: str = ""
    email: str = ""
    #: An account here has the same address.
    taken: bool = False
    faults: Mapping[str, str] = field(default_factory=dict[str, str])
