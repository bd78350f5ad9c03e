"""Alerts: their events, their email, and a problem that lasts."""

from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.model.email import MailKind
from valetkey.authorization.model.event.event import BySystem
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable


class AlertRaised(BySystem, frozen=True):
    """A check found a problem twice in a row; `check` is its name in `valetkey doctor --json`."""

    sentence = translatable("A problem was found: %(about)s (%(check)s).")

    affects_tokens: ClassVar[bool] = False
    check: str
    about: str


class AlertEnded(BySystem, frozen=True):
    """A problem that was reported is resolved."""

    sentence = translatable("A problem is resolved: %(about)s (%(check)s).")

    affects_tokens: ClassVar[bool] = False
    check: str
    about: str


EVENTS = (AlertRaised, AlertEnded)


class AlertEmail(MailKind):
    """The messages of alerts."""

    ALERT = "alert", translatable("Alert for administrators"), "alerts/"


class Alert(Struct, frozen=True):
    """A problem, or an event that was reported; `told_at` is None while it was seen only once.

    `host` is the machine that it is about, "" for the installation.
    """

    id: str
    host: str
    about: str
    since: Instant
    told_at: Instant | None = None
