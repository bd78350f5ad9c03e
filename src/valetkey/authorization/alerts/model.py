"""Alerts: their events, their email, a problem that lasts, and the store of rounds and problems."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.model.email import MailKind
from valetkey.authorization.model.event.event import BySystem
from valetkey.authorization.storage.transaction import Transaction
from valetkey.database.engine import Connection
from valetkey.database.record import Record
from valetkey.kernel.moment import Instant
from valetkey.kernel.text import translatable


class AlertRaised(BySystem, frozen=True):
    """A check found a problem twice in a row; `check` is its name in `valetkey doctor --json`."""

    subject = "check:{check}"
    sentence = translatable("A problem was found: %(about)s (%(check)s).")

    affects_tokens: ClassVar[bool] = False
    check: str
    about: str


class AlertEnded(BySystem, frozen=True):
    """A problem that was reported is resolved."""

    subject = "check:{check}"
    sentence = translatable("A problem is resolved: %(about)s (%(check)s).")

    affects_tokens: ClassVar[bool] = False
    check: str
    about: str


EVENTS = (AlertRaised, AlertEnded)


class AlertEmail(MailKind):
    """The messages of alerts."""

    ALERT = "alert", translatable("Alert for administrators"), "alerts/"


class Alert(Struct, frozen=True):
    """A problem, or an event that was reported; `told_at` is None while it was seen only once.

    `host` is the machine that it is about, "" for the installation.
    """

    id: str
    host: str
    about: str
    since: Instant
    told_at: Instant | None = None


MOST = 200
"""Alerts of one host that are kept; more at once are not reported."""

_ALERTS = Record(Alert, "alerts")


class Alerts(Struct, frozen=True):
    """A row for each alert, and a row for each host that looks for them."""

    db: Connection

    @staticmethod
    def of(tx: Transaction) -> "Alerts":
        """Return the store in this transaction."""
        return Alerts(tx.db)

    def begin_round(self, host: str, now: Instant, until: Instant) -> bool:
        """Return whether the caller is the one that looks for problems of this host until then."""
        self.db.run(
            "INSERT INTO alert_rounds (host, due_at) VALUES (:host, 0) ON CONFLICT DO NOTHING",
            host=host,
        )
        return bool(
            self.db.run(
                "UPDATE alert_rounds SET due_at = :until WHERE host = :host AND due_at <= :now",
                host=host,
                now=now,
                until=until,
            )
        )

    def hold(self, host: str) -> None:
        """Let no other transaction change alerts of this host before this one ends."""
        self.db.run("UPDATE alert_rounds SET due_at = due_at WHERE host = :host", host=host)

    def open(self, host: str) -> Sequence[Alert]:
        """Return the alerts of this host, oldest first."""
        return _ALERTS.all(
            self.db,
            "SELECT * FROM alerts WHERE host = :host ORDER BY since, id LIMIT :limit",
            host=host,
            limit=MOST,
        )

    def put(self, alert: Alert) -> None:
        """Store an alert in place of the one with this id."""
        self.remove(alert.id)
        _ALERTS.send(self.db, "INSERT INTO alerts (*) VALUES (*)", alert)

    def remove(self, alert_id: str) -> None:
        """Delete an alert."""
        self.db.run("DELETE FROM alerts WHERE id = :id", id=alert_id)

    def sweep(self, before: Instant, limit: int) -> int:
        """Delete hosts that have not looked since `before`, and what they found."""
        self.db.run(
            "DELETE FROM alert_rounds WHERE host IN"
            " (SELECT host FROM alert_rounds WHERE due_at < :before ORDER BY host LIMIT :limit)",
            before=before,
            limit=limit,
        )
        return self.db.run(
            "DELETE FROM alerts WHERE id IN (SELECT id FROM alerts WHERE host NOT IN"
            " (SELECT host FROM alert_rounds) ORDER BY id LIMIT :limit)",
            limit=limit,
        )
