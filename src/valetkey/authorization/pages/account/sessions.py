"""Where one is signed in, browser by browser."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One browser; `browser` and `system` are "" where it does not say what it is."""

    id: str
    browser: str
    system: str
    since: When
    last_seen: When
    #: The one that looks at the page.
    here: bool = False


@dataclass(frozen=True, slots=True)
class SessionsPage:
    """List them, this one first. Posts `csrf`, and `session` to end only that one."""

    template: ClassVar[str] = "account/sessions.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    action: str
    csrf: str
    sessions: tuple[SessionLine, ...]
    #: One of them just ended.
    ended: bool = False
    #: All others just ended.
    all_ended: bool = False
