"""Where requests come from: recorded beside events, outside their hash chain, and erased."""

from contextvars import ContextVar

from msgspec import Struct

from valetkey.database.engine import Connection
from valetkey.kernel.moment import Instant


class Origin(Struct, frozen=True):
    """The IP address of a request, and the names of its browser and system; each "" if unknown."""

    address: str = ""
    browser: str = ""
    system: str = ""

    def encode(self) -> str:
        """Encode for storage; no part contains the separator."""
        return f"{self.address}|{self.browser}|{self.system}"

    @property
    def shown_browser(self) -> str:
        """Browser and system as one text: "Firefox, Linux"."""
        return ", ".join(filter(None, (self.browser, self.system)))

    @staticmethod
    def decode(text: str) -> "Origin":
        """Decode what `encode` returned."""
        address, browser, system = text.split("|")
        return Origin(address, browser, system)


NOWHERE = Origin()
"""The origin of the server's own work, and of requests whose origin is not recorded."""

ORIGIN: ContextVar[Origin] = ContextVar("origin", default=NOWHERE)
"""The origin of the current request: `coming_from` sets it, and `Store.write` reads it."""


class EventOrigins(Struct, frozen=True):
    """Origins of events."""

    db: Connection

    def add(self, event_id: str, owner: int | None, origin: Origin, now: Instant) -> None:
        """Insert the origin of an event; `owner` is the uid of the user it belongs to, if known."""
        self.db.send(
            "INSERT INTO event_origins (event_id, owner, origin, noted_at)"
            " VALUES (:event_id, :owner, :origin, :now)",
            event_id=event_id,
            owner=owner,
            origin=origin.encode(),
            now=now,
        )

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete at most `limit` origins recorded before `before`."""
        return self.db.run(
            "DELETE FROM event_origins WHERE event_id IN (SELECT event_id FROM event_origins"
            " WHERE noted_at < :before ORDER BY noted_at LIMIT :limit)",
            before=before,
            limit=limit,
        )
