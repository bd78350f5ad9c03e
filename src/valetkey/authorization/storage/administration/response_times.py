"""Response times by hour: a histogram of milliseconds."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from valetkey.database.engine import Connection

Key = tuple[int, str, int]
"""Hour since 1970, outcome, and upper bound in milliseconds; 0 for the unbounded bucket."""


class ResponseTimes(Struct, frozen=True):
    """Counters that every process adds to."""

    db: Connection

    def add(self, amounts: Mapping[Key, int]) -> None:
        """Add to each counter."""
        # In one order everywhere: otherwise two processes could deadlock.
        for (hour, outcome, within), amount in sorted(amounts.items()):
            self.db.send(
                "INSERT INTO answer_times (hour, outcome, within, amount)"
                " VALUES (:hour, :outcome, :within, :amount)"
                " ON CONFLICT (hour, outcome, within) DO UPDATE"
                " SET amount = answer_times.amount + :amount",
                hour=hour,
                outcome=outcome,
                within=within,
                amount=amount,
            )

    def since(self, hour: int) -> Sequence[tuple[Key, int]]:
        """Return the counters of that hour and later, in order."""
        rows = self.db.rows(
            "SELECT hour, outcome, within, amount FROM answer_times WHERE hour >= :hour"
            " ORDER BY hour, outcome, within",
            hour=hour,
        )
        return [((at, outcome, within), amount) for at, outcome, within, amount in rows]

    def sweep(self, before_hour: int, limit: int) -> int:
        """Delete at most `limit` counters of earlier hours."""
        return self.db.run(
            "DELETE FROM answer_times WHERE (hour, outcome, within) IN"
            " (SELECT hour, outcome, within FROM answer_times WHERE hour < :hour"
            " ORDER BY hour LIMIT :limit)",
            hour=before_hour,
            limit=limit,
        )
