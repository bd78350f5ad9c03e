"""A client of the transmitter: it gets a token and calls the management API, as a receiver does."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.fetch.canary import LOOPBACK
from tests.support.asgi import Answer
from tests.support.harness import Harness
from tests.support.signal_receiver import SECRET, SignalReceiver, receiving
from tests.support.wait import until
from valetkey.authorization.model.event.accounts import UserEnabled
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import Uid
from valetkey.authorization.signals.model import LEASE
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.settings import Settings
from valetkey.kernel.replace import replace

_RETRIED_AFTER = 5.0
"""Seconds: a delivery that took so long has failed."""
CAEP = "https://schemas.openid.net/secevent/caep/event-type/"
RISC = "https://schemas.openid.net/secevent/risc/event-type/"
SSF = "https://schemas.openid.net/secevent/ssf/event-type/"
PUSH, POLL = "urn:ietf:rfc:8935", "urn:ietf:rfc:8936"
MACHINE = ("client_credentials",)
FETCH = {"fetch": replace(Settings().fetch, allow=LOOPBACK)}
"""Settings with which receivers may be on loopback."""


@dataclass
class SignalClient:
    """A registered client with a token for the transmitter."""

    it: Harness
    token: str

    async def call(
        self, method: str, path: str, body: object = None, *, token: str | None = None
    ) -> Answer:
        """Send a request with JSON, or with these bytes."""
        content = body if isinstance(body, bytes) else b""
        if body is not None and not isinstance(body, bytes):
            content = json.dumps(body).encode()
        held = self.token if token is None else token
        return await self.it.call(
            method,
            path,
            content,
            "application/json" if content else "",
            f"Bearer {held}" if held else "",
        )

    async def create(self, **configuration: object) -> dict[str, Any]:
        """Create a stream; return its configuration."""
        answer = await self.call("POST", "/ssf/streams", configuration)
        assert answer.status == 201, answer.body
        return answer.json

    async def push_to(self, url: str, *events: str, **configuration: object) -> str:
        """Create a stream that is pushed to this address; return its id."""
        delivery = {"method": PUSH, "endpoint_url": url, "authorization_header": SECRET}
        if events:
            configuration["events_requested"] = list(events)
        return str((await self.create(delivery=delivery, **configuration))["stream_id"])

    async def poll(self, stream_id: str, **body: object) -> dict[str, Any]:
        """Poll at once; return the response."""
        body.setdefault("returnImmediately", True)
        answer = await self.call("POST", f"/ssf/streams/{stream_id}/poll", body)
        assert answer.status == 200, answer.body
        return answer.json


async def signal_client(
    it: Harness, client_id: str = "receiver", *scopes: str, **metadata: object
) -> SignalClient:
    """Register a client with these scopes, by default both, and get a token of its own."""
    scopes = scopes or ("ssf.read", "ssf.manage")
    metadata.setdefault("grant_types", MACHINE)
    await it.client(client_id, redirect_uris=(), scopes=scopes, **metadata)
    return SignalClient(it, await it.own_token(client_id, scope=" ".join(scopes)))


@asynccontextmanager
async def receiver_of(it: Harness, hosts: int = 1) -> AsyncGenerator[SignalReceiver]:
    """A receiver that trusts this server, at so many addresses."""
    keys = (await it.call("GET", "/oauth/jwks")).json
    async with receiving(it.foundation.issuer, keys, hosts) as receiver:
        yield receiver


async def until_pushed(it: Harness, condition: Callable[[], bool]) -> None:
    """Wait for deliveries; the clock moves on, so that one that failed is retried."""

    async def move() -> None:
        while True:
            await asyncio.sleep(_RETRIED_AFTER)
            it.clock.forward(LEASE)

    moving = asyncio.create_task(move())
    try:
        await until(condition)
    finally:
        moving.cancel()


async def happen(it: Harness, *events: Event) -> None:
    """Write events, each in a transaction of its own; without any, one of user 1001."""
    for event in events or (UserEnabled(Uid(1001)),):

        def add(tx: Transaction, event: Event = event) -> None:
            tx.events.add(event, it.clock.now)

        await it.write(add)
