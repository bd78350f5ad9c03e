"""Append the events of the audit log to its hash chain, from any worker."""

import asyncio
from functools import partial

import msgspec
from msgspec import Struct

from valetkey.authorization.model.event.chain import BLOCK, Block, Retention, checkpoint
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.checkpoint import CheckpointKey
from valetkey.kernel.moment import Instant, hours, minutes
from valetkey.kernel.runtime import Runtime
from valetkey.web import log

EVERY = 10
"""Seconds from one block to the next, unless enough events for a whole block wait earlier."""

_LOOK_EVERY = 1.0
_IDLE = hours(1)
"""Without events, a block is appended this often: retention is reckoned from the newest block."""

_CHANGED = minutes(1)
_SAID_EVERY = hours(1)


class AuditChain(Struct):
    """Append blocks. Any number of processes may do so concurrently: there is one chain."""

    store: Store
    keep: Retention
    key: CheckpointKey
    runtime: Runtime
    _said_at: Instant = Instant(0)

    async def run(self) -> None:
        """Append what is due, every second."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            while await self.append_due() is not None:
                # Requests first: half of the time is theirs.
                await asyncio.sleep(clock() - began)
                began = clock()
            await asyncio.sleep(_LOOK_EVERY)

    async def append_due(self) -> Block | None:
        """Append one block if one is due; return it."""
        now = self.runtime.now()
        if not await self.store.read(partial(_is_due, self.keep, now)):
            return None
        block = await self.store.write(partial(_append, self.keep, self.key, now))
        if block is not None and block.at - self._said_at >= _SAID_EVERY:
            # Outside of the database, this proves that the end of the chain was cut off.
            self._said_at = block.at
            log.info(
                "audit.checkpoint", **msgspec.structs.asdict(checkpoint(block, self.key.public))
            )
        return block


def _is_due(keep: Retention, now: Instant, tx: Transaction) -> bool:
    newest = tx.audit_chain.newest()
    if newest is None:
        return True
    age, waiting = now - newest.at, tx.audit_chain.waiting()
    if waiting:
        return waiting >= BLOCK or age >= EVERY
    return age >= _IDLE or (age >= _CHANGED and newest.keep != keep.encode())


def _append(keep: Retention, key: CheckpointKey, now: Instant, tx: Transaction) -> Block | None:
    tx.audit_chain.hold()
    # Judged again: another process may have appended the block meanwhile.
    return tx.audit_chain.append(keep, now, key) if _is_due(keep, now, tx) else None
