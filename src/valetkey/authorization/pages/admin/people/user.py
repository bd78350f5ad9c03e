"""One person, and what can be done for them, to them and with them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from valetkey.authorization.layout.contexts import SessionLine, When
from valetkey.authorization.pages.admin.people.users import PersonLine


class Act(StrEnum):
    """What can be done; each is the end of an address and has a question of its own."""

    SIGN_OUT = "sign-out"
    RESET_MAIL = "reset-mail"
    RESET_FACTORS = "reset-factors"
    VERIFY_EMAIL = "verify-email"
    LET_REGISTER = "let-register"
    STOP_REGISTER = "stop-register"
    END_APP = "end-app"
    DISABLE = "disable"
    ENABLE = "enable"
    ROLE = "role"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class FactorLine:
    """A way to sign in."""

    kind: str
    name: str
    count: int
    since: When
    last_used: When | None


@dataclass(frozen=True, slots=True)
class UserAppLine:
    """An app that may do something for them."""

    name: str
    since: When
    last_used: When | None
    #: The question before its access ends; "" where whoever looks may not ask it.
    end_url: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """Something that happened to them."""

    name: str
    when: When
    #: Who did it, where it was not they themselves; else "".
    done_by: str


@dataclass(frozen=True, slots=True)
class Way:
    """Something that can be done, and the address of its question."""

    act: Act
    url: str


@dataclass(frozen=True, slots=True)
class UserPage:
    """Everything about one person that may be seen: no password, nothing that signs in."""

    template: ClassVar[str] = "admin/people/user.html"

    person: PersonLine
    #: Was let register apps; None where nobody needs that.
    develops: bool | None
    factors: tuple[FactorLine, ...]
    sessions: tuple[SessionLine, ...]
    apps: tuple[UserAppLine, ...]
    events: tuple[EventLine, ...]
    #: What whoever looks may do.
    ways: tuple[Way, ...]
    #: What they just did.
    done: Act | None = None
    #: All events; "" where there is no such page.
    events_url: str = ""


@dataclass(frozen=True, slots=True)
class ActPage:
    """Ask before it is done, and say what ends. Posts `csrf`, and `role` or `app` with them."""

    template: ClassVar[str] = "admin/people/act.html"

    act: Act
    action: str
    back: str
    csrf: str
    person: PersonLine
    #: How much ends.
    sessions: int = 0
    apps: int = 0
    #: The app whose access ends, by its id and its name.
    app: str = ""
    app_name: str = ""
    #: Apps that only they look after.
    orphans: int = 0
    #: The roles there are, by value and name.
    roles: tuple[tuple[str, str], ...] = ()
    #: The one they have, "none" for none.
    chosen: str = ""
