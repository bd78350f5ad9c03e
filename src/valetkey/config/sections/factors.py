"""The settings of second factors."""

# ruff: noqa: RUF009 - `days(30)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, days


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """Second factors and remembered browsers."""

    remember_devices: Annotated[Lifetime, rules.lifetime("1h", "365d")] = days(30)
    """Time for which a remembered browser skips the second factor. Longer is more convenient;
    shorter limits what a stolen device can do."""

    refuse_fallen_counters: Annotated[bool, rules.FLAG] = True
    """Refuse a passkey whose signature counter decreased, which suggests a copy. If off, it is only
    recorded as an event, for authenticators with unreliable counters."""
