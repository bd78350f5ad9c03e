"""The table of checks, and their evaluation: for the console, and for `valetkey doctor`."""

from collections.abc import Sequence

from valetkey.authorization.actions.inspection import (
    accounts,
    certificates,
    databases,
    keys,
    machine,
    queues,
)
from valetkey.authorization.actions.inspection.check import (
    Check,
    DatabaseCheck,
    Finding,
    MachineCheck,
    NetworkCheck,
    Site,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.moment import Instant

CHECKS: tuple[Check, ...] = (
    *machine.CHECKS,
    *certificates.CHECKS,
    *databases.CHECKS,
    *keys.CHECKS,
    *accounts.CHECKS,
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
