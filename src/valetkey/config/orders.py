"""Orders of certificates that the authority of `tls.acme` refused, as their file counts them."""

from contextlib import suppress

from valetkey.config.paths import acme_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.kernel.moment import Instant


def failed_orders(settings: Settings, server: ServerSettings) -> tuple[int, Instant]:
    """Return how often the authority refused in a row, and when it did last."""
    with suppress(OSError, ValueError):
        count, when = acme_file(settings, server, "failed").read_text(encoding="ascii").split()
        return max(1, int(count)), Instant(int(when))
    return 0, Instant(0)
