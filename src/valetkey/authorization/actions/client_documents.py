"""Clients whose id is the URL of their metadata document: fetch, validate and store it on request.

docs/decisions/0033 says what happens when a document changes or disappears.
"""

import asyncio
import contextlib
from collections import OrderedDict
from functools import partial
from typing import TypeVar

from valetkey.authorization.actions.clients import Sectors
from valetkey.authorization.actions.registrations import SelfRegistrar
from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.event import ANONYMOUS, USUAL_ACTOR
from valetkey.authorization.protocol.register.self_registration import (
    LONGEST_URL,
    SCHEME,
    host_of_document,
    lifetime_of,
    read_document,
    refuse_registration,
)
from valetkey.authorization.storage.clients import DocumentRead
from valetkey.authorization.storage.transaction import Store
from valetkey.authorization.tokens.client_keys import LOOK_AGAIN
from valetkey.config.settings import RegistrationSettings
from valetkey.fetch.outbound import ANYTHING, OutboundHttp, Unfetchable
from valetkey.kernel.moment import Instant, days, hours, later, minutes, seconds
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.replace import replace
from valetkey.web.client_address import Buckets, network_of

T = TypeVar("T")

AWAY = days(1)
"""How long past its lifetime a document is used while its server cannot be reached."""

RETRY = seconds(10)
"""Minimum time between two requests for a document that could not be used."""

_NEW_OF_HOST = 60
"""Documents of unknown clients fetched from one host within a minute, by each worker."""

_AWAY_CHECKS = frozenset(f"fetch.{name}" for name in ("name", "connect", "slow", "answer"))
_MOST = 10_000


class ClientDocuments:
    """Updates the stored clients from the documents that their ids name."""

    def __init__(
        self,
        store: Store,
        directory: ClientDirectory,
        registrar: SelfRegistrar,
        http: OutboundHttp,
        settings: RegistrationSettings,
    ) -> None:
        """Fetch through `http`, with empty caches."""
        self._store = store
        self._directory = directory
        self._registrar = registrar
        self._sectors = Sectors(http)
        self._http = http
        self._settings = settings
        self._addresses = Buckets(settings.registrations_per_hour, hours(1))
        self._hosts = Buckets(_NEW_OF_HOST, minutes(1))
        self._fresh: OrderedDict[str, Instant] = OrderedDict()
        self._failed: OrderedDict[str, tuple[Instant, Refusal]] = OrderedDict()
        self._looked: OrderedDict[str, Instant] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[None]] = {}

    async def update_from_document(self, client_id: str | None, address: str, now: Instant) -> None:
        """Store or update the client whose metadata document has this URL; ignore other ids.

        For requests that begin an authorization. Does nothing for every other client, and for one
        that was disabled or adopted by the operator. Refused if the document cannot be used; while
        its server cannot be reached, the record counts for another day.
        """
        if not client_id or not client_id.startswith(SCHEME) or len(client_id) > LONGEST_URL:
            return
        stored, settings = await self._directory.find(client_id), self._settings
        if stored is not None or settings.metadata_documents:
            await self._keep_current(client_id, stored, address, now)

    async def _keep_current(
        self,
        client_id: str,
        stored: Client | None,
        address: str,
        now: Instant,
        *,
        is_stale: bool = False,
    ) -> None:
        if stored is not None and (stored.disabled_at is not None or not stored.self_registered):
            return
        settings = self._settings
        host, hosts = host_of_document(client_id), settings.metadata_document_hosts
        if not settings.metadata_documents or (hosts and host not in hosts):
            raise Refused(_refusal("host", "apps of this host cannot be used here"))
        if stored is None or is_stale or not await self._is_fresh(client_id, now):
            await self._renew(client_id, stored, address, now)

    async def renew(self, client_id: str, now: Instant, lacks_key: bool = False) -> None:
        """Update a known client that authenticates; without a usable document keep the stored one.

        If it `lacks_key` that the client signed with, its document is fetched before it is stale,
        at most once in 30 seconds. An app keeps its grants while its document is unavailable; they
        expire, or the user or the operator revokes them.
        """
        stored = await self._directory.find(client_id) if client_id.startswith(SCHEME) else None
        if stored is None:
            return
        if lacks_key:
            if later(self._looked.get(client_id, Instant(0)), LOOK_AGAIN) > now:
                return
            _remember(self._looked, client_id, now)
        with contextlib.suppress(Refused):
            await self._keep_current(client_id, stored, "", now, is_stale=lacks_key)

    async def _is_fresh(self, client_id: str, now: Instant) -> bool:
        until = self._fresh.get(client_id)
        if until is None or until <= now:
            # Another process may have fetched it.
            read = await self._store.read(lambda tx: tx.registrations.document_of(client_id))
            until = Instant(0) if read is None else read.fresh_until
            _remember(self._fresh, client_id, until)
        return until > now

    async def _renew(
        self, client_id: str, stored: Client | None, address: str, now: Instant
    ) -> None:
        failed = self._failed.get(client_id)
        if failed is not None and abs(now - failed[0]) < RETRY:
            self._judge(failed[1], client_id, stored, now)
            return
        task = self._under_way.get(client_id)
        if task is None:
            self._count(client_id, stored, address, now)
            task = asyncio.create_task(self._fetch(client_id, stored, now))
            self._under_way[client_id] = task
            task.add_done_callback(partial(self._end, client_id, now))
        try:
            # Shielded: cancelling one caller must not cancel the request that others share.
            await asyncio.shield(task)
        except Refused as refused:
            self._judge(refused.refusal, client_id, stored, now)

    def _judge(self, refusal: Refusal, client_id: str, stored: Client | None, now: Instant) -> None:
        """Raise the refusal, unless the server is away and the stored document recent enough."""
        is_away = refusal.check.removeprefix(_PREFIX) in _AWAY_CHECKS
        until = self._fresh.get(client_id, Instant(0))
        if stored is None or not is_away or later(until, AWAY) <= now:
            raise Refused(refusal)

    def _count(self, client_id: str, stored: Client | None, address: str, now: Instant) -> None:
        if stored is not None:
            # Bounded by the lifetime of the document; unknown clients must not use up these turns.
            return
        host = host_of_document(client_id)
        wait = self._addresses.take(network_of(address), now) or self._hosts.take(host, now)
        if wait:
            refusal = _refusal("rate", "too many new apps; try again later")
            raise Refused(replace(refusal, code=ErrorCode.SLOW_DOWN, retry_after=wait))

    def _end(self, client_id: str, now: Instant, done: asyncio.Task[None]) -> None:
        del self._under_way[client_id]
        # Reading the exception also keeps asyncio from logging it as never retrieved.
        error = None if done.cancelled() else done.exception()
        if isinstance(error, Refused):
            _remember(self._failed, client_id, (now, error.refusal))

    async def _fetch(self, client_id: str, stored: Client | None, now: Instant) -> None:
        try:
            fetched = await self._http.get(client_id, accept=ANYTHING)
        except Unfetchable as error:
            reason = "the metadata of the app cannot be read at its client_id; try again later"
            raise Refused(_refusal(error.check, reason)) from None
        try:
            document = read_document(client_id, fetched.media_type, fetched.body)
            read = DocumentRead(
                self._registrar.fingerprints.fingerprint("client document", fetched.body.hex()),
                later(now, lifetime_of(fetched.cache_control, fetched.age)),
            )
            unchanged = stored is not None and await self._store.write(
                lambda tx: tx.registrations.renew_document(client_id, read), done_by=USUAL_ACTOR
            )
            if not unchanged:
                metadata = self._registrar.read(document, stored)
                if faults := await self._sectors.faults(metadata):
                    refuse_registration(faults)
                host, most = host_of_document(client_id), self._settings.most_metadata_documents
                await self._store.write(
                    lambda tx: self._registrar.keep_document(
                        tx, client_id, metadata, read, host=host, most=most, now=now
                    ),
                    done_by=ANONYMOUS,
                )
        except Refused as refused:
            if refused.refusal.code is ErrorCode.TEMPORARILY_UNAVAILABLE:
                raise
            reason = f"the metadata of the app cannot be used: {refused.refusal.description}"
            raise Refused(_refusal(refused.refusal.check, reason)) from None
        _remember(self._fresh, client_id, read.fresh_until)


def _remember(places: OrderedDict[str, T], client_id: str, value: T) -> None:
    places[client_id] = value
    places.move_to_end(client_id)
    if len(places) > _MOST:
        places.popitem(last=False)


_PREFIX = "client_document."


def _refusal(check: str, description: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, description, f"{_PREFIX}{check}")
