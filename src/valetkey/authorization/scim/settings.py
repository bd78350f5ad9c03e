"""The settings of SCIM."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import SettingsGroup, whole


@dataclass(frozen=True, slots=True)
class ScimSettings:
    """Provisioning of users and groups by a directory (SCIM 2.0, RFC 7644)."""

    GROUP: ClassVar = SettingsGroup.DIRECTORIES
    GUIDE: ClassVar = "how-to/people/provision-by-scim"

    enabled: Annotated[bool, rules.FLAG, "Let directories provision users and groups"] = False
    """Serves `/scim/v2` for programs with a credential of `valetkey scim create`. They can create,
    change, disable and delete every user without a role, and every group."""

    requests_per_minute: Annotated[
        int,
        whole(1, 1_000_000, "requests a minute"),
        "Requests of one directory",
        SettingsGroup.LIMITS,
    ] = 1_200
    """Requests that one credential may send to each worker before it gets 429. Each operation of a
    bulk request counts."""


SECTIONS = {"scim": ScimSettings}
