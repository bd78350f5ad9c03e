"""What happens to letters to people."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.event import BySystem


@dataclass(frozen=True, slots=True)
class MailDispatched(BySystem):
    """The mail server took a letter; `kind` is what it is about."""

    name: ClassVar[str] = "mail.dispatched"
    uid: int | None
    kind: str
    attempts: int


@dataclass(frozen=True, slots=True)
class MailGivenUp(BySystem):
    """A letter was not sent, and nobody tries any more; `because` says what was in the way."""

    name: ClassVar[str] = "mail.given_up"
    uid: int | None
    kind: str
    attempts: int
    because: str
