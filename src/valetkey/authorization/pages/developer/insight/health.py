"""Health: what should be mended, and the question before a button mends it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class FindingLine:
    """One thing to mend. `sign` says what, `weight` is alarm, warning or hint.

    `mend` is the name of what a button does, "" for none; `way` is the page of the portal on which
    it is done by hand.
    """

    sign: str
    weight: str
    about: tuple[str, ...] = ()
    last: When | None = None
    mend: str = ""
    way: str = ""


@dataclass(frozen=True, slots=True)
class HealthPage:
    """List them. `mended` is the name of what was just done, "" for nothing."""

    template: ClassVar[str] = "developer/insight/health.html"

    app: AppHead
    lines: tuple[FindingLine, ...]
    mended: str = ""


@dataclass(frozen=True, slots=True)
class MendPage:
    """Ask before it is done. Posts `csrf`, to `action`."""

    template: ClassVar[str] = "developer/insight/mend.html"

    app: AppHead
    action: str
    csrf: str
    line: FindingLine
    #: How many people are connected with the app.
    people: int = 0
