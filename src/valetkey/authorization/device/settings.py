"""The settings of device authorization."""

# ruff: noqa: RUF009 - `minutes(10)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import SettingsGroup, whole
from valetkey.kernel.moment import Lifetime, minutes, seconds


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """Sign-in on devices without a browser (RFC 8628), for clients that have this grant type."""

    GROUP: ClassVar = SettingsGroup.LIMITS
    GUIDE: ClassVar = "how-to/apps/sign-in-on-devices"

    code_lifetime: Annotated[
        Lifetime, rules.lifetime("1m", "30m"), "Lifetime of device codes", SettingsGroup.TOKENS
    ] = minutes(10)
    """How long a user has to enter the code that a device shows."""

    interval: Annotated[
        Lifetime,
        rules.lifetime("1s", "1m"),
        "Time between the polls of a device",
        SettingsGroup.TOKENS,
    ] = seconds(5)
    """Seconds between the polls of a device. A device that polls sooner gets `slow_down`, and
    its interval grows by 5 seconds each time, up to a minute."""

    codes_per_client: Annotated[int, whole(1, 100_000, "codes"), "Device codes of one app"] = 500
    """Codes that one client may request in `code_lifetime` without a user allowing them, so never
    more than twice as many are open. Fewer open codes make a guess less likely to hit one."""

    codes_per_address: Annotated[
        int, whole(1, 100_000, "codes"), "Device codes from one network"
    ] = 30
    """Codes that one address (/24 or /56) may request in `code_lifetime`, for all clients, without
    a user allowing them. A code that was allowed stops counting; ten times as many may be requested
    in all."""

    wrong_codes: Annotated[int, whole(3, 1_000, "codes"), "Wrong device codes of one user"] = 10
    """Wrong codes that one user, and one address, may enter in `code_lifetime`."""

    wrong_codes_everywhere: Annotated[
        int, whole(10, 1_000_000, "codes"), "Wrong device codes of all users"
    ] = 1_000
    """Wrong codes that all users together may enter in `code_lifetime`. With 10,000 open codes one
    guess hits any of them with a probability of 2^-21, because there are 20^8 codes: at this limit
    an attacker with any number of accounts and addresses needs about two weeks for one hit, and
    gains a device that is signed in to the attacker's account."""


SECTIONS = {"device": DeviceSettings}
