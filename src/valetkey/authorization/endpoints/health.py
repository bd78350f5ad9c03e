"""Live: the process answers. Ready: it can write to its database and has a key to sign with."""

from dataclasses import dataclass

from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.web.exchange import Request, Response, json_response


async def live(request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "live"})


@dataclass(frozen=True, slots=True)
class HealthEndpoint:
    """Ready when a real write transaction commits; 503 otherwise."""

    store: Store
    keys: SigningKeyRing

    async def __call__(self, request: Request) -> Response:
        """200, after something was written and is on disk."""
        await self.keys.refresh(request.at)
        self.keys.current(request.at)
        await self.store.write(_write)
        return json_response({"status": "ready"})


def _write(tx: Transaction) -> int:
    return tx.db.run("UPDATE revision SET number = number WHERE name = 'directory'")
