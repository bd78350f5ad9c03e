"""A bounded cache of clients in each process, current to the last revision."""

from valetkey.authorization.model.register.client import RESOURCE_SERVER, Client
from valetkey.authorization.storage.revision import is_revision, revision
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel import metrics

_MOST = 10_000


class ClientDirectory:
    """Clients by id. This process sees its own changes at once, and those of others soon."""

    def __init__(self, store: Store) -> None:
        """Start with an empty cache."""
        self._store = store
        self._known: dict[str, Client] = {}
        self._changed = -1
        self._revision = -1

    @property
    def revision(self) -> int:
        """The revision of the register that was compared last; -1 before the first time."""
        return self._revision

    async def find(self, client_id: str) -> Client | None:
        """Return the client, disabled or not. Unknown ids are not cached: anyone can invent one."""
        return await self.remembered(client_id) or await self.find_client(client_id)

    async def remembered(self, client_id: str) -> Client | None:
        """Return the client if it is cached and no client has changed since."""
        await self.compare()
        client = self._known.get(client_id)
        metrics.CACHE.add("clients", "miss" if client is None else "hit")
        return client

    async def find_client(self, client_id: str) -> Client | None:
        """Return the client in the database, with the same work whether or not it exists."""
        if not client_id or not client_id.isascii() or not client_id.isprintable():
            return None
        number, client = await self._store.read(lambda tx: _read(tx, client_id))
        if client is not None and number == self._revision:
            if len(self._known) >= _MOST:
                self._known.clear()
            # The one that is there stays: requests under way are known by it.
            return self._known.setdefault(client_id, client)
        return client

    async def find_again(self, client_id: str) -> Client | None:
        """Re-read the client from the database; call it before refusing a client.

        Another process may have changed it less than a second ago.
        """
        self.recheck()
        await self.compare()
        return await self.find_client(client_id)

    def recheck(self) -> None:
        """Compare the revision with the database before the next client is returned.

        For a caller that knows of a change by another process, which `Engine.changed` notices
        after half a second.
        """
        self._changed = -1

    def is_current(self, tx: Transaction, client: Client) -> bool:
        """Return whether `client`, a result of `find`, is current for this transaction.

        False means unknown: read it then. Safe to call from any thread.
        """
        # Read before the clients: they are replaced before it is.
        number = self._revision
        return self._known.get(client.id) is client and is_revision(tx.db, number)

    async def compare(self) -> None:
        """Compare the revision with the database, if something was committed since."""
        changed = self._store.engine.changed()
        if changed == self._changed:
            return
        number = await self._store.read_one(lambda tx: revision(tx.db))
        self._changed = changed
        if number != self._revision:
            # In this order, for those who ask `is_current` meanwhile.
            self._known.clear()
            self._revision = number


def _read(tx: Transaction, client_id: str) -> tuple[int, Client | None]:
    number, client = revision(tx.db), tx.clients.find(client_id)
    # One that is there and one that is not, in any case: to read a client takes longer than none.
    tx.clients.find(RESOURCE_SERVER if client is None else "")
    return number, client
