"""Live: the process answers. Ready: it can write to its database and has a key to sign with."""

from dataclasses import dataclass

from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.database.probe import Readiness
from valetkey.web.exchange import Request, Response, json_response


async def live(request: Request) -> Response:
    """The process answers."""
    return json_response({"status": "live"})


@dataclass(frozen=True, slots=True)
class HealthEndpoint:
    """Ready when a write like those of requests commits; 503 otherwise."""

    readiness: Readiness
    keys: SigningKeyRing

    async def __call__(self, request: Request) -> Response:
        """200, after something was written and is on disk, at most once a second: anyone may ask.

        Raises NoSigningKey and what the engine raises, which the server answers with 503.
        """
        # First: it also looks whether a database that was gone is back.
        await self.readiness.prove(request.at)
        await self.keys.refresh(request.at)
        self.keys.current(request.at)
        return json_response({"status": "ready"})
