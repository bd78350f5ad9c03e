"""The settings of alerts."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import SettingsGroup, texts
from valetkey.config.sections.people import mail_address
from valetkey.kernel.text import translatable


@dataclass(frozen=True, slots=True)
class AlertSettings:
    """Email to administrators about what needs attention, without any other monitoring."""

    GROUP: ClassVar = SettingsGroup.MONITORING
    GUIDE: ClassVar = "how-to/operate/alerts-without-prometheus"

    enabled: Annotated[bool, rules.FLAG, "Alerts by email"] = False
    """Whether administrators get an email when something is wrong that `valetkey doctor` calls an
    error, when it is resolved, and when something happens that should not, such as the second use
    of a refresh token. Email must be configured: set `mail.host`."""

    to: Annotated[
        tuple[str, ...],
        texts(translatable('a list of addresses, such as ["ops@example.com"]'), mail_address),
        "Addresses that get alerts",
    ] = ()
    """Addresses that get the alerts. Empty: every owner and administrator with a verified
    address."""


SECTIONS = {"alerts": AlertSettings}
