"""What happened to an account, in plain words."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class ActivityLine:
    """One event: its name, when it was, and the app that it is about, "" for none.

    `because` is the reason that the event gives, "" for none.
    """

    name: str
    when: When
    app: str = ""
    because: str = ""


@dataclass(frozen=True, slots=True)
class ActivityPage:
    """List them, newest first. `earlier` is the address of the next page, "" on the last."""

    template: ClassVar[str] = "account/activity.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    lines: tuple[ActivityLine, ...]
    earlier: str = ""
    #: This is not the first page.
    later: bool = False
