"""How long people with a role may look after the server before they prove again who they are."""

# ruff: noqa: RUF009 - `hours(1)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.kernel.moment import Lifetime, hours, minutes


@dataclass(frozen=True, slots=True)
class AdministrationSettings:
    """How long the pages of administration stay open to somebody with a role."""

    idle: Annotated[Lifetime, rules.lifetime("1m", "8h")] = minutes(30)
    """Who used none of these pages for so long proves again who they are. Their session for all
    else goes on: it has a time of its own."""

    lifetime: Annotated[Lifetime, rules.lifetime("5m", "1d")] = hours(12)
    """After so long they do, however busy they were."""
