"""The table of checks, evaluated within a time limit for the console and `valetkey doctor`."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.actions.inspection import machine, queues, records
from valetkey.authorization.actions.inspection.check import (
    FAILED,
    UNFINISHED,
    Check,
    DatabaseCheck,
    Finding,
    Level,
    MachineCheck,
    NetworkCheck,
    Site,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.web import log

CHECKS: tuple[Check, ...] = (
    *machine.MACHINE_CHECKS,
    *machine.CERTIFICATE_CHECKS,
    *machine.CHECKS,
    *records.KEY_CHECKS,
    *records.ACCOUNT_CHECKS,
    *queues.CHECKS,
)
"""Every check that the console makes. `valetkey doctor` makes these and those of a shell."""


def in_database(
    tx: Transaction, site: Site, of_features: Sequence[DatabaseCheck] = ()
) -> Sequence[Finding]:
    """Perform the checks of the authorization server's database."""
    checks = [check for check in CHECKS if isinstance(check, DatabaseCheck)]
    return [each for check in (*checks, *of_features) for each in check.run(tx, site)]


def on_machine(settings: Settings, now: Instant) -> Sequence[Finding]:
    """Perform the checks of this machine; they read files, so call this in a thread."""
    checks = [check for check in CHECKS if isinstance(check, MachineCheck)]
    return [each for check in checks for each in check.run(settings, now)]


async def over_network(settings: Settings) -> Sequence[Finding]:
    """Perform the checks that ask other servers, one after the other."""
    checks = [check for check in CHECKS if isinstance(check, NetworkCheck)]
    return [await check.run(settings) for check in checks]


WITHIN = 2.0
"""Seconds that a page waits for the checks."""

KEPT = 10
"""Seconds for which findings are cached."""


class _Part(Struct):
    """The checks of one kind; at most one evaluation runs at a time."""

    task: "asyncio.Task[None] | None" = None
    found: Sequence[Finding] = ()
    at: Instant | None = None

    def is_fresh(self, now: Instant) -> bool:
        return self.at is not None and 0 <= now - self.at < KEPT


@dataclass(frozen=True, slots=True)
class Inspector:
    """Evaluates the table of checks for the console.

    Each worker makes at most one evaluation of a kind at a time; pages that come meanwhile wait for
    the same one. One that does not end, as on a dead network disk, is never started again.
    """

    settings: Settings
    store: Store
    keyring: Keyring
    roles: Roles
    checks: Sequence[DatabaseCheck]
    """Those of features."""
    _parts: dict[str, _Part] = field(
        default_factory=dict[str, _Part], repr=False, compare=False, hash=False
    )

    async def findings(self, now: Instant) -> Sequence[Finding]:
        """Return what needs attention, urgent findings first, in at most two seconds."""
        parts = await self.by_part(now)
        return sorted(
            (each for found in parts.values() for each in found if each.level is not Level.OK),
            key=lambda each: each.level is not Level.ERROR,
        )

    async def by_part(self, now: Instant) -> Mapping[str, Sequence[Finding]]:
        """Return all findings about the `database`, the `machine` and `mail`, in two seconds.

        `UNFINISHED` and `FAILED` stand for checks that were not made.
        """
        site = Site(self.settings, self.keyring, self.roles, now)
        evaluations: Mapping[str, Callable[[], Awaitable[Sequence[Finding]]]] = {
            "database": lambda: self.store.scan(lambda tx: in_database(tx, site, self.checks)),
            "machine": lambda: asyncio.to_thread(on_machine, self.settings, now),
            "mail": lambda: over_network(self.settings),
        }
        for name, evaluate in evaluations.items():
            part = self._parts.setdefault(name, _Part())
            if part.task is None and not part.is_fresh(now):
                part.task = asyncio.create_task(self._evaluate(part, name, evaluate, now))
        tasks = [part.task for part in self._parts.values() if part.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=WITHIN)
        return {
            name: (*part.found, UNFINISHED.found(part=name)) if part.task else part.found
            for name, part in self._parts.items()
        }

    async def _evaluate(
        self,
        part: _Part,
        name: str,
        evaluate: Callable[[], Awaitable[Sequence[Finding]]],
        now: Instant,
    ) -> None:
        try:
            part.found = await evaluate()
        except (DatabaseUnavailable, Overloaded, OSError) as failure:
            log.error("inspection.failed", failure)
            part.found = [FAILED.found(part=name)]
        finally:
            part.task = None
        part.at = now
