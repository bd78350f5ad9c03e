"""Events of outgoing email."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import BySystem


@dataclass(frozen=True, slots=True)
class MailDispatched(BySystem):
    """The mail server accepted a message; `kind` is its subject."""

    uid: int | None
    kind: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MailGivenUp(BySystem):
    """Delivery of a message was abandoned; `because` says why."""

    uid: int | None
    kind: str
    attempts: int
    because: str
