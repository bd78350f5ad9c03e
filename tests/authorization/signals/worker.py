"""A process that pushes tokens, and does nothing else: arguments are folder, database, seconds.

Its clock is so many seconds ahead: leases of a process that was killed have expired for it.
"""

import asyncio
import sys
from pathlib import Path
from time import monotonic

from tests.authorization.signals.clients import FETCH
from tests.support.harness import NOON, SCOPES
from valetkey.authorization.actions.inspection.inspector import Inspector
from valetkey.authorization.app.foundation import build_foundation
from valetkey.authorization.feature import Parts
from valetkey.authorization.signals.jobs import jobs
from valetkey.config.settings import Settings, SettingsSource
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime


async def main(directory: Path, database: str, ahead: int) -> None:
    """Push until the process is killed."""
    defaults = Settings()
    settings = replace(
        defaults,
        authorization=replace(defaults.authorization, database=database),
        tokens=replace(defaults.tokens, signing_algorithms=(Algorithm.ES256,)),
        source=SettingsSource(None, directory, {}),
        fetch=FETCH["fetch"],
    )
    # It goes on, so that a failed attempt is repeated.
    began = monotonic()
    runtime = Runtime(lambda: Instant(NOON + ahead + int(monotonic() - began)), SYSTEM.random)
    it = build_foundation(settings, runtime, SCOPES, begins=False)
    it.outgoing.prepare()
    inspector = Inspector(settings, it.store, it.keyring, it.roles, ())
    parts = Parts(
        it.store,
        it.keyring,
        it.outgoing,
        runtime,
        it.notices,
        it.keys,
        it.accounts(),
        settings,
        it.services.kinds,
        inspector,
    )
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.gather(*(job() for job in jobs(parts)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
