"""What an event is.

It is written in the transaction that made the change. None carries a secret or free text that a
client sent.
"""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.actor import (
    ANONYMOUS,
    ITS_CLIENT,
    ITS_USER,
    SYSTEM,
    Written,
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `name` is noun.past_participle.

    Its actor is the one for whom the transaction acts. An event that also happens in transactions
    that name no actor says by its base class who does it then; any other is refused there.
    """

    name: ClassVar[str]
    usual_actor: ClassVar[Written | None] = None


class ByUser(Event):
    """An event that the user does whom it names; an anonymous visitor where it names none."""

    __slots__ = ()
    usual_actor = ITS_USER


class ByClient(Event):
    """An event that the client does which it names."""

    __slots__ = ()
    usual_actor = ITS_CLIENT


class ByAnonymous(Event):
    """An event that somebody does who has not proved who they are."""

    __slots__ = ()
    usual_actor = Written(ANONYMOUS)


class BySystem(Event):
    """An event that the server does by itself."""

    __slots__ = ()
    usual_actor = Written(SYSTEM)
