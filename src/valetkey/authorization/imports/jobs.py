"""Check and import the users of uploaded files, a batch at a time, from any worker."""

import asyncio
from functools import partial

from msgspec import Struct

from valetkey.authorization.actions.admin.user_imports import ImportWork
from valetkey.authorization.model.account.user_import import UserImport
from valetkey.authorization.model.event.event import USUAL_ACTOR
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
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
            await asyncio.sleep(_LOOK_EVERY)

    async def process_stage(self) -> bool:
        """Finish a stage of one import; return whether there was one."""
        now = self.runtime.now()
        found = await self.store.read(lambda tx: tx.user_imports.due(now))
        if found is None:
            return False
        clock = asyncio.get_running_loop().time
        while found is not None:
            began = clock()
            step = partial(_step, self.work, found, self.runtime.now())
            found = await self.store.write(step, done_by=USUAL_ACTOR)
            # Requests first: half of the time is reserved for them.
            await asyncio.sleep(min(_LONGEST_REST, clock() - began))
        return True


def _step(work: ImportWork, found: UserImport, now: Instant, tx: Transaction) -> UserImport | None:
    return work.step(tx, found, now)
