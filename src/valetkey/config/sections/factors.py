"""The settings of second factors."""

# ruff: noqa: RUF009 - `days(30)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, days


@dataclass(frozen=True, slots=True)
class FactorSettings:
    """Passkeys, authenticator apps, and browsers in which they are not asked for."""

    remember_devices: Annotated[Lifetime, rules.lifetime("1h", "365d")] = days(30)
    """How long the second factor is not asked for in a browser whose person said so. Shorter asks
    people more often; longer gives more time to whoever takes the device."""

    refuse_fallen_counters: Annotated[bool, rules.FLAG] = True
    """Refuse a passkey that tells a lower count of its uses than before, which a copy of it would.
    Off, it is only noted in the events, for devices that lose count."""
