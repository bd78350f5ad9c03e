"""Settings of the life of the servers' processes."""

from dataclasses import dataclass
from typing import Annotated

from valetkey.config.rules import whole


@dataclass(frozen=True, slots=True)
class ServingSettings:
    """Shutdown, and replacement of workers by `valetkey reload`."""

    drain: Annotated[int, whole(0, 600, "seconds")] = 5
    """Seconds for which a worker continues to respond after SIGTERM, while `/health/ready` returns
    503 and every response has `Connection: close`. Then it stops accepting connections and finishes
    open requests. Set it longer than your load balancer needs to notice, and than your proxy keeps
    idle connections (`keepalive_timeout` of nginx's `upstream`). SIGINT (Ctrl-C) skips it."""
