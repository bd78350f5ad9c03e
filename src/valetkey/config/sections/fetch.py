"""Outbound requests to servers named by apps."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import Network


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Outgoing requests of the authorization server to URLs that clients registered."""

    allow: Annotated[tuple[Network, ...], rules.NETWORKS] = ()
    """Private networks that may be requested; there, http and other ports are allowed too. Empty:
    only https on port 443 of public addresses, so that clients cannot make this server reach
    internal services."""

    ca_file: Annotated[str, rules.PATH] = ""
    """PEM file with certificates to trust in addition to those of the system."""
