"""Live: the process answers. Ready: it can write to its database and has a key to sign with."""

from dataclasses import dataclass, field

from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response, json_response


async def live(request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "live"})


@dataclass(slots=True)
class _Seen:
    at: Instant | None = None


@dataclass(frozen=True, slots=True)
class HealthEndpoint:
    """Ready when a real write transaction commits; 503 otherwise."""

    store: Store
    keys: SigningKeyRing
    ready: _Seen = field(default_factory=_Seen)

    async def __call__(self, request: Request) -> Response:
        """200, after something was written and is on disk, at most once a second: anyone may ask.

        Raises NoSigningKey and what the store raises, which the server answers with 503.
        """
        if request.at != self.ready.at:
            await self.keys.refresh(request.at)
            self.keys.current(request.at)
            await self.store.write(_write)
            self.ready.at = request.at
        return json_response({"status": "ready"})


def _write(tx: Transaction) -> int:
    return tx.db.run("UPDATE revision SET number = number WHERE name = 'directory'")
