"""Events of sign-in, sessions and back-channel logout."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser


@dataclass(frozen=True, slots=True)
class SignInFailed(ByAnonymous):
    """A password was wrong, or there was no such account (`uid` is then absent)."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    door: str


@dataclass(frozen=True, slots=True)
class SessionStarted(ByUser):
    """A user signed in."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionRenewed(ByUser):
    """A signed-in user signed in again; the session continues."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityConfirmed(ByUser):
    """A signed-in user authenticated again before a sensitive action."""

    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionEnded(ByUser):
    """A session ended; `because` says why."""

    uid: int
    session_id: str
    because: str


@dataclass(frozen=True, slots=True)
class LogoutTokenDelivered(BySystem):
    """A logout token was delivered and the client confirmed it."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LogoutTokenGivenUp(BySystem):
    """Delivery of a logout token was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str
