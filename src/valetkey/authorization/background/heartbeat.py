"""The heartbeat of this node: its row in the database while it runs, none after a clean stop."""

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import version

from valetkey.authorization.actions.inspection.machine import DatabaseOf, clock_of
from valetkey.authorization.background.maintenance import written_or
from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.nodes import Node, Nodes
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import to_base64url

_EVERY = 30.0
_NAME = 200


@dataclass(slots=True)
class Heartbeat:
    """Keeps the row of the node `id`, which the workers of one supervisor share.

    One of its processes writes: the one that started last, or another if that one failed.
    """

    store: Store
    id: str
    database: DatabaseOf
    runtime: Runtime
    supervised: bool
    _holder: str = field(init=False)
    _parent: int = field(init=False, default_factory=os.getppid)

    def __post_init__(self) -> None:
        """Choose the name of this process."""
        self._holder = to_base64url(self.runtime.random(9))

    async def run(self) -> None:
        """Write a heartbeat every 30 seconds until cancelled; then remove the row."""
        try:
            await self._write(Nodes.add)
            while True:
                await rest(_EVERY)
                await self._write(Nodes.renew)
        except asyncio.CancelledError:
            # If the supervisor was killed, the node was not stopped.
            if not self.supervised or os.getppid() == self._parent:
                with suppress(DatabaseUnavailable, Overloaded):
                    await self._write(Nodes.remove)
            raise

    async def _write(self, what: Callable[[Nodes, Node], None]) -> None:
        now = self.runtime.now()

        def write(tx: Transaction) -> None:
            at = clock_of(tx.db, self.database, now)
            name = socket.gethostname()[:_NAME] or "-"
            address = self.database.server.listen
            node = Node(self.id, self._holder, name, address, version("valetkey"), at, at)
            what(tx.nodes, node)

        # Not cancelled half-way: a heartbeat must not follow the removal.
        await written_or(lambda: None, self.store.write(write, done_by=SYSTEM))
