"""Fetch apps' logos in the background, so that pages show a copy of ours."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from valetkey.authorization.model.event.event import SYSTEM
from valetkey.authorization.storage.images import PendingLogo
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.fetch.image import UnusableImage, small_copy
from valetkey.fetch.outbound import Fetched, Unfetchable
from valetkey.kernel.moment import Instant, later, minutes
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import to_base64url
from valetkey.web import log
from valetkey.web.offload import Busy, Offload

PAUSES = (minutes(1), minutes(10))
"""Pauses after the first and second attempt without a response; the third is the last."""

BATCH = 4
"""Logos that one process fetches at a time; they are decoded one after the other."""

_LEASE = minutes(1)
_LOOK_EVERY = 1.0

Get = Callable[[str], Awaitable[Fetched]]
"""Fetches a URL that an app registered; raises Unfetchable."""


class LogoFetcher(Struct, frozen=True):
    """Fetch logos. Any number of processes may do so concurrently."""

    store: Store
    get: Get
    offload: Offload
    runtime: Runtime

    async def fetch(self) -> None:
        """Fetch logos that are due, every second."""
        while True:
            while await self.fetch_some():
                pass
            await rest(_LOOK_EVERY)

    async def fetch_some(self) -> bool:
        """Fetch a few concurrently; return whether there may be more."""
        now = self.runtime.now()
        if not await self.store.read(lambda tx: tx.logos.is_any_due(now)):
            return False
        until = later(now, _LEASE)
        leased = await self.store.write(
            lambda tx: tx.logos.lease(now, until, BATCH), done_by=SYSTEM
        )
        attempts = [self._attempt(logo) for logo in leased]
        for failure in await asyncio.gather(*attempts, return_exceptions=True):
            # Fetched again when the lease has expired.
            if isinstance(failure, Exception):
                log.error("logo.failed", failure)
        return len(leased) == BATCH

    async def _attempt(self, logo: PendingLogo) -> None:
        client = await self.store.read(lambda tx: tx.clients.find(logo.client_id))
        if client is None or not client.may_show_logo:
            await self.store.write(lambda tx: drop_unshown(tx, logo), done_by=SYSTEM)
            return
        try:
            fetched = await self.get(logo.source)
            image = await self.offload.run(small_copy, fetched.body)
        except Unfetchable as failure:
            await self._failed(logo, failure.check, self._next(logo))
        except UnusableImage as failure:
            await self._failed(logo, failure.check, None)
        except Busy:
            await self._failed(logo, "image.busy", later(self.runtime.now(), _LEASE))
        else:
            name = to_base64url(self.runtime.random(16))
            await self.store.write(lambda tx: _keep(tx, logo, name, image), done_by=SYSTEM)

    def _next(self, logo: PendingLogo) -> Instant | None:
        if logo.attempts > len(PAUSES):
            return None
        return later(self.runtime.now(), PAUSES[logo.attempts - 1])

    async def _failed(self, logo: PendingLogo, check: str, due_at: Instant | None) -> None:
        log.info("logo.unusable", client=logo.client_id, attempts=logo.attempts, reason=check)
        await self.store.write(lambda tx: tx.logos.fail(logo, check, due_at), done_by=SYSTEM)


def _keep(tx: Transaction, logo: PendingLogo, name: str, image: bytes) -> None:
    tx.clients.touch()
    tx.logos.store(logo, name, image)


def drop_unshown(tx: Transaction, logo: PendingLogo) -> None:
    """Delete the logo, unless its client may show it by now."""
    # Checked again under the row lock: an administrator verifying the client at this moment wants
    # its logo.
    client = tx.clients.find_held(logo.client_id)
    if client is None or not client.may_show_logo:
        tx.logos.drop(logo)
