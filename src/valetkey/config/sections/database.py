"""Settings of the databases: how long the servers wait for them."""

# ruff: noqa: RUF009 - `seconds(1)` is a number: nothing that two settings could share and change

from dataclasses import dataclass
from typing import Annotated

from valetkey.config import rules
from valetkey.config.rules import whole
from valetkey.database.engine import Timeouts
from valetkey.kernel.moment import Lifetime, minutes, seconds


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Time limits for the databases of both servers. A request that exceeds one gets 503."""

    answer_timeout: Annotated[Lifetime, rules.lifetime("1s", "5m")] = seconds(10)
    """The longest wait for one transaction: queue, connection, statements and commit together. Then
    the request is answered with 503 and `Retry-After`, even if the database hangs. A transaction
    that has not begun to commit by then is not committed any more. Without this bound, requests
    wait for as long as a server is frozen or a synchronous standby is gone."""

    connect_timeout: Annotated[Lifetime, rules.lifetime("2s", "1m")] = seconds(5)
    """The longest wait for a new connection to PostgreSQL, for each host of a URL with several.
    `connect_timeout` in the URL takes precedence."""

    statement_timeout: Annotated[Lifetime, rules.lifetime("1s", "5m")] = seconds(5)
    """PostgreSQL ends a statement that runs longer. Every statement of a request is a look-up by
    key, so a longer one means a disk or a server in trouble."""

    lock_timeout: Annotated[Lifetime, rules.lifetime("1s", "1m")] = seconds(3)
    """The longest wait for a lock. On SQLite, the longest wait until another process, such as a
    second worker or the command line, has finished writing."""

    report_timeout: Annotated[Lifetime, rules.lifetime("1s", "10m")] = minutes(1)
    """Time limit for requests that list or count many rows, instead of `answer_timeout`."""

    start_timeout: Annotated[Lifetime, rules.lifetime("1s", "1h")] = minutes(1)
    """How long `valetkey serve` waits at start for a database that does not respond, for example
    after a power cut. Then it exits with the reason."""

    connections: Annotated[int, whole(1, 100, "connections")] = 4
    """Connections to PostgreSQL in each worker; one more watches for changes. All workers together
    must stay below `max_connections` of the server."""

    @property
    def timeouts(self) -> Timeouts:
        """The bounds of every wait."""
        return Timeouts(
            connect=self.connect_timeout,
            statement=self.statement_timeout,
            lock=self.lock_timeout,
            report=self.report_timeout,
            answer=self.answer_timeout,
        )
