"""What an event is.

It is written in the transaction that made the change. None carries a secret or free text that a
client sent.
"""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened. `name` is noun.past_participle."""

    name: ClassVar[str]
