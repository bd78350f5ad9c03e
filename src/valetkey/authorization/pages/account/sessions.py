"""Where one is signed in, browser by browser."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.pages.visitor.when import When


class Proof(StrEnum):
    """How somebody showed who they are."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    TWO_STEPS = "two_steps"  # a password, and something else
    ELSEWHERE = "elsewhere"  # another server said so


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
    proof: Proof = Proof.PASSWORD


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
