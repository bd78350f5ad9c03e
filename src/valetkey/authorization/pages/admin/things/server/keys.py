"""Signing keys: which sign, which will, which did, and what may be done about them."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When


@dataclass(frozen=True, slots=True)
class KeyLine:
    """One key; `state` is `next`, `current` or `retiring`. Moments are exact to the second."""

    kid: str
    state: str
    made: When
    signs_from: When
    signs_until: When | None
    published_until: When | None
    #: The question before it is withdrawn; "" where whoever looks may not ask it.
    withdraw_url: str


@dataclass(frozen=True, slots=True)
class KeysOfAlgorithm:
    """The keys of one algorithm, the next one first."""

    algorithm: str
    keys: tuple[KeyLine, ...]


@dataclass(frozen=True, slots=True)
class KeysPage:
    """All of them."""

    template: ClassVar[str] = "admin/things/server/keys.html"

    algorithms: tuple[KeysOfAlgorithm, ...]
    #: Days for which a key signs, and hours for which it is published before.
    lifetime: int
    publication: int
    rotate_url: str
    #: `rotated` or `withdrawn`; "" for nothing.
    done: str = ""


@dataclass(frozen=True, slots=True)
class KeyAskPage:
    """The question before keys are rotated, or one is withdrawn (`kid`)."""

    template: ClassVar[str] = "admin/things/server/key_ask.html"

    action: str
    back: str
    csrf: str
    algorithms: tuple[str, ...] = ()
    kid: str = ""
    state: str = ""
