"""Privacy: IP addresses in sessions and events, and where they are."""

# ruff: noqa: RUF009 - `days(90)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated, ClassVar

from valetkey.config import rules
from valetkey.config.rules import Group
from valetkey.kernel.moment import Lifetime, days


@dataclass(frozen=True, slots=True)
class PrivacySettings:
    """IP addresses of users: whether they are recorded, for how long, and how they are shown."""

    GROUP: ClassVar = Group.PRIVACY

    record_ip_addresses: Annotated[bool, rules.FLAG, "Record IP addresses"] = True
    """Whether sessions, events, codes of devices and security emails have the IP address of the
    request. If off, none is recorded and those recorded before are erased. Rate limits store keyed
    hashes of networks instead, and the log of requests is not affected."""

    ip_address_retention: Annotated[
        Lifetime, rules.lifetime("1d", "3650d"), "Delete IP addresses after"
    ] = days(90)
    """Time after which an IP address is erased, of events with the browser. The session or event
    stays."""

    geo_database: Annotated[str, rules.PATH, "Database of places"] = ""
    """MaxMind DB file with cities or countries, such as GeoLite2-City.mmdb, to show the approximate
    place beside an IP address. It is looked up when a page is shown and never stored. Reload the
    server after replacing the file. Empty: no places."""
