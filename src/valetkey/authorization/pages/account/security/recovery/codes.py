"""Recovery codes: how many are left, and a set that is shown this once."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class RecoveryPage:
    """How many are left. Posts `csrf` for a new set."""

    template: ClassVar[str] = "account/security/recovery/left.html"

    action: str
    csrf: str
    left: int
    since: When | None = None


@dataclass(frozen=True, slots=True)
class RecoveryCodesPage:
    """A set, to be kept. Posts `csrf` and `codes` (the set, sealed) for a file of it."""

    template: ClassVar[str] = "account/security/recovery/codes.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    download: str
    csrf: str
    sealed: str
    codes: tuple[str, ...]
