"""The register of clients as this process knows it: bounded, current to the last revision."""

from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.register.clients import revision
from valetkey.authorization.storage.transaction import Store, Transaction

_MOST = 10_000


class ClientDirectory:
    """Clients by id. A change counts at once in the process that made it, soon in the others."""

    def __init__(self, store: Store) -> None:
        """Know nobody yet."""
        self._store = store
        self._known: dict[str, Client] = {}
        self._changed = -1
        self._revision = -1

    async def find(self, client_id: str) -> Client | None:
        """The client, disabled or not. Unknown ids are not remembered: anyone can make them up."""
        await self._compare()
        known = self._known.get(client_id)
        if known is not None:
            return known
        if not client_id.isascii() or not client_id.isprintable():
            return None
        number, client = await self._store.read(
            lambda tx: (revision(tx.db), tx.clients.find(client_id))
        )
        if client is not None and number == self._revision:
            if len(self._known) >= _MOST:
                self._known.clear()
            self._known[client_id] = client
        return client

    async def find_again(self, client_id: str) -> Client | None:
        """The client as the database has it now, for whoever is about to refuse it.

        Another process may have changed it less than a second ago.
        """
        self._known.pop(client_id, None)
        self._changed = -1
        return await self.find(client_id)

    def is_current(self, tx: Transaction, client: Client) -> bool:
        """Whether `client`, whom `find` gave, is what the register holds for this transaction.

        False says nothing: look then. Any thread may ask.
        """
        return revision(tx.db) == self._revision and self._known.get(client.id) is client

    async def _compare(self) -> None:
        changed = self._store.engine.changed()
        if changed == self._changed:
            return
        number = await self._store.read(lambda tx: revision(tx.db))
        self._changed = changed
        if number != self._revision:
            # In this order, for those who ask `is_current` meanwhile.
            self._known.clear()
            self._revision = number
