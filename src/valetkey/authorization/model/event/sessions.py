"""What happens to sessions, and who was told of it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import ByAnonymous, BySystem, ByUser


@dataclass(frozen=True, slots=True)
class SignInFailed(ByAnonymous):
    """A password was wrong, or there was no such account (`uid` is then absent)."""

    name: ClassVar[str] = "sign_in.failed"
    uid: int | None
    door: str


@dataclass(frozen=True, slots=True)
class SessionStarted(ByUser):
    """Someone signed in."""

    name: ClassVar[str] = "session.started"
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionRenewed(ByUser):
    """Someone signed in again where they were signed in; their session goes on."""

    name: ClassVar[str] = "session.renewed"
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IdentityConfirmed(ByUser):
    """Someone who is signed in proved again who they are, before something that matters."""

    name: ClassVar[str] = "identity.confirmed"
    uid: int
    session_id: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SessionEnded(ByUser):
    """Someone signed out, or was signed out; `because` says which."""

    name: ClassVar[str] = "session.ended"
    uid: int
    session_id: str
    because: str


@dataclass(frozen=True, slots=True)
class LogoutTokenDelivered(BySystem):
    """An app was told that a session has ended, and said that it heard."""

    name: ClassVar[str] = "logout_token.delivered"
    uid: int
    client_id: str
    session_id: str
    attempts: int


@dataclass(frozen=True, slots=True)
class LogoutTokenGivenUp(BySystem):
    """An app that was told of a session will not hear of its end; `because` says why not."""

    name: ClassVar[str] = "logout_token.given_up"
    uid: int
    client_id: str
    session_id: str
    attempts: int
    because: str
