"""Track when client secrets are used: in memory, stored at most once an hour each."""

import asyncio
from collections.abc import Mapping
from functools import partial

from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, hours

EVERY = hours(1)
"""The precision of the time at which a secret was last used."""

_WRITE_EVERY = 30.0
_MOST = 10_000


class SecretUses:
    """Last use of client secrets, collected in memory and written later.

    Uses not yet written are lost when the process ends.
    """

    def __init__(self) -> None:
        """Start without recorded uses."""
        self._noted: dict[str, Instant] = {}
        self._waiting: dict[str, Instant] = {}

    def note(self, secret_id: str, now: Instant) -> None:
        """Record a use of this secret at `now`."""
        if self._noted.get(secret_id, 0) > now - EVERY:
            return
        if len(self._noted) >= _MOST:
            self._noted.clear()
        self._noted[secret_id] = self._waiting[secret_id] = now

    async def flush(self, store: Store) -> None:
        """Write the collected uses; those that could not be written are kept."""
        waiting, self._waiting = self._waiting, {}
        if not waiting:
            return
        try:
            await store.write(partial(_write, waiting), done_by=SYSTEM)
        except BaseException:
            self._waiting = {**waiting, **self._waiting}
            raise

    async def run(self, store: Store) -> None:
        """Write the collected uses every 30 seconds until cancelled."""
        while True:
            await asyncio.sleep(_WRITE_EVERY)
            await self.flush(store)


def _write(uses: Mapping[str, Instant], tx: Transaction) -> None:
    tx.secrets.note_uses(uses)
