"""The base of all events.

An event is written in the transaction that made the change. It carries no secret and no free text
from a client.
"""

import re
from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.model.event.actor import (
    ANONYMOUS,
    ITS_CLIENT,
    ITS_USER,
    SYSTEM,
    Written,
)

_PARTICIPLE = re.compile(r"([A-Z][a-z]+(?:Up)?)$")
_BETWEEN_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Event:
    """An event. Its name is that of its class: `CodeRedeemed` is `code.redeemed`.

    Its actor is the one of the transaction. For an event that also happens in transactions without
    an actor, the base class names the actor; any other event is refused there.
    """

    name: ClassVar[str]
    usual_actor: ClassVar[Written | None] = None
    affects_tokens: ClassVar[bool] = True
    """Whether it may change what is answered about a token that was issued before.

    False only where that is certain: caches keep their answers then.
    """

    def __init_subclass__(cls) -> None:
        cls.name = _BETWEEN_WORDS.sub("_", _PARTICIPLE.sub(r".\1", cls.__name__)).lower()


class ByUser(Event):
    """An event done by the user it names; by an anonymous visitor where it names none."""

    __slots__ = ()
    usual_actor = ITS_USER


class ByClient(Event):
    """An event done by the client it names."""

    __slots__ = ()
    usual_actor = ITS_CLIENT


class ByAnonymous(Event):
    """An event done by an unauthenticated caller."""

    __slots__ = ()
    usual_actor = Written(ANONYMOUS)


class BySystem(Event):
    """An event done by the server itself."""

    __slots__ = ()
    usual_actor = Written(SYSTEM)
