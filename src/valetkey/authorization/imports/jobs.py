"""Check and import the users of uploaded files, a batch at a time, from any worker."""

import asyncio
from functools import partial

from msgspec import Struct

from valetkey.authorization.background.maintenance import BATCH
from valetkey.authorization.feature import Job, Parts
from valetkey.authorization.imports.rules.users import (
    MOST_KEPT,
    REPORT_LIFETIME,
    UPLOAD_LIFETIME,
    WAITING_LIFETIME,
    ImportWork,
)
from valetkey.authorization.imports.storage import UserImports
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime

_LOOK_EVERY = 1.0
_LONGEST_REST = 0.05


class UserImporter(Struct, frozen=True):
    """Any number of processes may do so concurrently: each row is taken by one transaction.

    What a killed process had taken is continued by another one ten seconds later.
    """

    store: Store
    work: ImportWork
    runtime: Runtime

    async def run(self) -> None:
        """Look for imports every second."""
        while True:
            while await self.process_stage():
                pass
            await rest(_LOOK_EVERY)

    async def process_stage(self) -> bool:
        """Finish a stage of one import; return whether there was one."""
        now = self.runtime.now()
        user_import = await self.store.read(lambda tx: UserImports.of(tx).due(now))
        if user_import is None:
            return False
        clock = asyncio.get_running_loop().time
        while user_import is not None:
            began = clock()
            step = partial(self.work.step, user_import=user_import, now=self.runtime.now())
            user_import = await self.store.write(step, done_by=USUAL_ACTOR)
            # Requests first: half of the time is reserved for them.
            await asyncio.sleep(min(_LONGEST_REST, clock() - began))
        return True


def jobs(parts: Parts) -> tuple[Job, ...]:
    """Return what runs in the background of every worker."""
    return (UserImporter(parts.store, ImportWork(parts.accounts), parts.runtime).run,)


def sweep(tx: Transaction, now: Instant, limit: int = BATCH) -> int:
    """Delete incomplete uploads, checked files without a decision, and old reports."""
    return UserImports.of(tx).sweep(
        Instant(now - UPLOAD_LIFETIME),
        Instant(now - WAITING_LIFETIME),
        Instant(now - REPORT_LIFETIME),
        MOST_KEPT,
        limit,
    )
