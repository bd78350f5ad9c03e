"""Settings of the life of the servers' processes."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config.rules import whole


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """How the servers stop, and how `valetkey reload` replaces their workers."""

    drain: Annotated[int, whole(0, 600, "seconds")] = 5
    """Seconds for which a worker goes on answering after SIGTERM: `/health/ready` says 503, and
    every answer says `Connection: close`. Then it accepts nothing more and finishes what was asked.
    Longer than a load balancer needs to notice, and than a proxy keeps an idle connection to it
    open (`keepalive_timeout` of nginx's `upstream`). SIGINT (Ctrl-C) skips it."""
