"""The table of checks, evaluated within a time limit for the console and `valetkey doctor`."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from valetkey.authorization.actions.admin.roles import Roles
from valetkey.authorization.actions.inspection import machine, nodes, queues, records
from valetkey.authorization.actions.inspection.check import (
    DATABASE,
    FAILED,
    MACHINE,
    MAIL,
    UNFINISHED,
    Check,
    DatabaseCheck,
    Finding,
    Installation,
    Level,
    MachineCheck,
    NetworkCheck,
    is_incomplete,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.config.settings import Settings
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.web import log

CHECKS: tuple[Check, ...] = (
    *machine.CHECKS,
    *nodes.CHECKS,
    *machine.MACHINE_CHECKS,
    *machine.CERTIFICATE_CHECKS,
    *records.KEY_CHECKS,
    *records.ACCOUNT_CHECKS,
    *queues.CHECKS,
)
"""Every check that the console makes. `valetkey doctor` makes these and those of a shell."""


def in_database(
    tx: Transaction, installation: Installation, of_features: Sequence[DatabaseCheck] = ()
) -> Sequence[Finding]:
    """Perform the checks of the authorization server's database."""
    checks = [check for check in CHECKS if isinstance(check, DatabaseCheck)]
    return [finding for check in (*checks, *of_features) for finding in check.run(tx, installation)]


def on_machine(settings: Settings, now: Instant) -> Sequence[Finding]:
    """Perform the checks of this machine; they read files, so call this in a thread."""
    checks = [check for check in CHECKS if isinstance(check, MachineCheck)]
    return [finding for check in checks for finding in check.run(settings, now)]


async def over_network(settings: Settings) -> Sequence[Finding]:
    """Perform the checks that ask other servers, one after the other."""
    checks = [check for check in CHECKS if isinstance(check, NetworkCheck)]
    return [await check.run(settings) for check in checks]


class PartState(Struct, frozen=True):
    """The state of a part of the installation: its translatable name, and what was found."""

    name: str
    findings: Sequence[Finding]

    @property
    def problems(self) -> Sequence[Finding]:
        """What needs attention, checks that were not made included."""
        return [finding for finding in self.findings if finding.level is not Level.OK]


class Inspection(Struct, frozen=True):
    """What needs attention, urgent findings first, and each part of which anything was found."""

    findings: Sequence[Finding]
    states: Sequence[PartState]


_PART_OF: Mapping[str, str] = {"database": DATABASE, "machine": MACHINE, "mail": MAIL}
"""The part to which checks of a kind belong that were not made."""


WITHIN = 2.0
"""Seconds that a page waits for the checks."""

KEPT = 10
"""Seconds for which findings are cached."""


class _Part(Struct):
    """The checks of one kind; at most one evaluation runs at a time."""

    task: "asyncio.Task[None] | None" = None
    findings: Sequence[Finding] = ()
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

    async def inspect(self, now: Instant) -> Inspection:
        """Return what was found, in at most two seconds."""
        every = [finding for part in (await self.by_part(now)).values() for finding in part]
        needs_attention = (finding for finding in every if finding.level is not Level.OK)
        urgent_first = sorted(needs_attention, key=lambda finding: finding.level is not Level.ERROR)
        return Inspection(urgent_first, self._states(every))

    def _states(self, findings: Iterable[Finding]) -> Sequence[PartState]:
        checks = (*CHECKS, *self.checks)
        part_of = {row.name: check.part for check in checks for row in check.conditions}
        part_findings: dict[str, list[Finding]] = {check.part: [] for check in checks if check.part}
        for finding in findings:
            name = finding.condition.name
            part = _PART_OF[finding.values["part"]] if is_incomplete(finding) else part_of[name]
            if part:
                part_findings[part].append(finding)
        return [PartState(name, findings) for name, findings in part_findings.items() if findings]

    async def by_part(self, now: Instant) -> Mapping[str, Sequence[Finding]]:
        """Return all findings about the `database`, the `machine` and `mail`, in two seconds.

        `UNFINISHED` and `FAILED` stand for checks that were not made.
        """
        installation = Installation(self.settings, self.keyring, self.roles, now)
        evaluations: Mapping[str, Callable[[], Awaitable[Sequence[Finding]]]] = {
            "database": lambda: self.store.scan(
                lambda tx: in_database(tx, installation, self.checks)
            ),
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
            name: (*part.findings, UNFINISHED.finding(part=name)) if part.task else part.findings
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
            part.findings = await evaluate()
        except (DatabaseUnavailable, Overloaded, OSError) as failure:
            log.error("inspection.failed", failure)
            part.findings = [FAILED.finding(part=name)]
        finally:
            part.task = None
        part.at = now
