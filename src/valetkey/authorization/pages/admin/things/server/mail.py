"""Mail: how it is sent, how it stands, and a letter to try it."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


@dataclass(frozen=True, slots=True)
class PostLine:
    """What became of a letter; `because` is "" for one that the mail server took."""

    kind: str
    when: When
    attempts: int
    because: str = ""


@dataclass(frozen=True, slots=True)
class MailPage:
    """The state of the outbox, and the button.

    `transport` is `smtp`, `mailbox` or `off`; `tested` is `queued`, `refused`, or "".
    """

    template: ClassVar[str] = "admin/things/server/mail.html"

    action: str
    csrf: str
    transport: str
    server: str
    sender: str
    to: str
    waiting: int
    sent: tuple[PostLine, ...]
    given_up: tuple[PostLine, ...]
    may_test: bool = True
    tested: str = ""
