"""Recent authentication of administrators."""

# ruff: noqa: RUF009 - `hours(1)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, hours, minutes


@dataclass(frozen=True, slots=True)
class AdministrationSettings:
    """Sessions in the admin console."""

    idle: Annotated[Lifetime, rules.lifetime("1m", "8h")] = minutes(30)
    """Idle time after which the console asks an administrator to confirm their identity. They stay
    signed in otherwise."""

    lifetime: Annotated[Lifetime, rules.lifetime("5m", "1d")] = hours(12)
    """Maximum time in the console before it asks again, however active the administrator is."""
