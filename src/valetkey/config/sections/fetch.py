"""What is asked of servers of strangers."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import Network


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What the authorization server may ask of other servers, at addresses that clients chose."""

    allow: Annotated[tuple[Network, ...], rules.NETWORKS] = ()
    """Networks inside that clients' servers may be in; there http and other ports are fine as well.
    Empty: only https on port 443 of addresses out in the world, or any client could make this
    server knock at doors that only it can reach."""

    ca_file: Annotated[str, rules.PATH] = ""
    """PEM file with certificates to trust beside those of the system, for private networks."""
