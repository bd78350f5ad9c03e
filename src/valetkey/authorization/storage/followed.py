"""Stored records that a process keeps in memory, and reads again after a change."""

import asyncio
from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from valetkey.authorization.storage.transaction import Store, Transaction

LOOK_EVERY = 1.0
"""Seconds between checks for a change by another process; a check costs microseconds."""

T = TypeVar("T")


class Followed(ABC, Generic[T]):
    """Records whose changes call `touch`, which `Engine.changed` announces to every process.

    A change takes effect within two seconds in every process, and at once in one that calls
    `refresh`.
    """

    _changed = -1

    @abstractmethod
    def read(self, tx: Transaction) -> T:
        """Return the records."""

    @abstractmethod
    def apply(self, stored: T) -> None:
        """Use the records from now on; they may be as before."""

    async def refresh(self, store: Store) -> None:
        """Read and apply the records, if anything in the register changed."""
        changed = store.engine.changed()
        if changed == self._changed:
            return
        self.apply(await store.read(self.read))
        # Last: what could not be applied is read again.
        self._changed = changed

    async def follow_changes(self, store: Store) -> None:
        """Follow changes by other processes, for as long as the server runs."""
        while True:
            await self.refresh(store)
            await asyncio.sleep(LOOK_EVERY)
