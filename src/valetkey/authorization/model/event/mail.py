"""Events of outgoing email."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import BySystem


@dataclass(frozen=True, slots=True)
class MailDispatched(BySystem):
    """The mail server accepted a message; `kind` is its subject."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MailGivenUp(BySystem):
    """Delivery of a message was abandoned; `because` says why."""

    affects_tokens: ClassVar[bool] = False
    uid: int | None
    kind: str
    attempts: int
    because: str
