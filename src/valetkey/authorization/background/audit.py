"""Append events to the audit log's hash chain, and export it to files, syslog or HTTP."""

import asyncio
import fcntl
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from valetkey.authorization.model.event.chain import (
    BLOCK,
    Block,
    ChainedEvent,
    Retention,
    checkpoint,
)
from valetkey.authorization.model.event.event import SYSTEM, read_back
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel import metrics
from valetkey.kernel.keyring import CheckpointKey
from valetkey.kernel.moment import Instant, hours, later, minutes, written
from valetkey.kernel.pace import rest
from valetkey.kernel.runtime import Runtime
from valetkey.kernel.secret import Secret, to_base64url
from valetkey.web import log

_WITHIN = 10.0
"""Seconds for connecting, and for each wait of a syslog connection."""

_PRIORITY = 13 * 8 + 6
"""Facility "log audit", severity "informational" (RFC 5424 section 6.2.1)."""

_NAME = 32
_HEARD = range(200, 300)
_JSON = "application/x-ndjson"


class NotExported(Exception):
    """The destination did not accept the batch, or did not confirm it."""


class AuditLine(Struct, frozen=True):
    """One line of a batch: an event, or the checkpoint of its block."""

    at: int
    name: str
    content: Mapping[str, object]

    def encode(self) -> bytes:
        """Return the line as JSON."""
        return msgspec.json.encode(self.content)


Deliver = Callable[[Sequence[AuditLine]], Awaitable[None]]
"""Returns once the destination has the batch; raises NotExported."""


def destination(url: str, directory: Path, http: OutboundHttp, token: Secret | None) -> Deliver:
    """Return the function that delivers to `url`, which the settings have checked."""
    parts = urlsplit(url)
    if parts.scheme == "file":
        return AuditFile(directory / parts.path).deliver
    if parts.scheme == "syslog+tls":
        return SyslogServer(parts.hostname or "", parts.port or 6514, http.context).deliver
    authorization = "" if token is None else f"Bearer {token.reveal()}"
    return HttpCollector(url, http, authorization).deliver


class AuditFile(Struct, frozen=True):
    """A file with one JSON object a line, opened for each batch: it may be rotated at any time."""

    path: Path

    async def deliver(self, lines: Sequence[AuditLine]) -> None:
        """Append the lines and wait until they are on disk."""
        text = b"".join(line.encode() + b"\n" for line in lines)
        try:
            await asyncio.to_thread(self._append, text)
        except OSError as failure:
            raise NotExported(failure.strerror or type(failure).__name__) from failure

    def _append(self, text: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        with os.fdopen(os.open(self.path, flags, 0o640), "ab", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            size = os.fstat(file.fileno()).st_size
            try:
                written = file.write(text)
                if written != len(text):
                    raise OSError("the disk is full")
                os.fsync(file.fileno())
            except OSError:
                # Half a line would be joined to the first of the next attempt.
                with suppress(OSError):
                    os.ftruncate(file.fileno(), size)
                raise


class SyslogServer(Struct, frozen=True):
    """A syslog server over TLS (RFC 5425), with a connection for each batch."""

    host: str
    port: int
    context: Callable[[], Awaitable[ssl.SSLContext]]

    async def deliver(self, lines: Sequence[AuditLine]) -> None:
        """Send the batch, and wait until the server has read it.

        Syslog has no acknowledgement. TLS is closed in both directions instead: the server answers
        only behind everything that was sent.
        """
        name = socket.gethostname()
        batch = b"".join(frame(line, name) for line in lines)
        try:
            await asyncio.to_thread(self._send, batch, await self.context())
        except OSError as failure:
            raise NotExported(failure.strerror or type(failure).__name__) from failure

    def _send(self, batch: bytes, context: ssl.SSLContext) -> None:
        with (
            socket.create_connection((self.host, self.port), timeout=_WITHIN) as plain,
            context.wrap_socket(plain, server_hostname=self.host) as connection,
        ):
            connection.sendall(batch)
            try:
                connection.unwrap()
            except ssl.SSLEOFError:
                # It closed the connection without closing TLS, which not every server does.
                return


class HttpCollector(Struct, frozen=True):
    """A server that accepts batches as newline-delimited JSON and responds with 2xx."""

    url: str
    http: OutboundHttp
    authorization: str

    async def deliver(self, lines: Sequence[AuditLine]) -> None:
        """POST the batch."""
        body = b"\n".join(line.encode() for line in lines) + b"\n"
        try:
            answer = await self.http.post(self.url, body, _JSON, authorization=self.authorization)
        except Unfetchable as failure:
            raise NotExported(failure.check) from failure
        if answer.status not in _HEARD:
            raise NotExported(f"status {answer.status}")


def frame(line: AuditLine, host: str) -> bytes:
    """Return an RFC 5424 message with the length that RFC 5425 section 4.3 puts before it."""
    at = written(Instant(line.at))
    head = f"<{_PRIORITY}>1 {at} {host[:255] or '-'} valetkey - {line.name[:_NAME]} - "
    message = head.encode("ascii", "replace") + "\ufeff".encode() + line.encode()
    return b"%d %b" % (len(message), message)


_LOOK_EVERY = 1.0
_LEASE = minutes(2)
"""Longer than any delivery: another worker takes over if this one was killed."""

_LONGEST_PAUSE = 300.0


class _Batch(Struct, frozen=True):
    block: Block
    events: Sequence[ChainedEvent]
    skipped: int
    """Blocks that expired before they were exported."""


@dataclass(slots=True)
class AuditExport:
    """Delivers to one destination. Any number of processes may run it."""

    store: Store
    name: str
    deliver: Deliver
    public: str
    runtime: Runtime
    _holder: str = field(init=False)

    def __post_init__(self) -> None:
        """Choose the name under which this process leases the destination."""
        self._holder = to_base64url(self.runtime.random(9))

    async def run(self) -> None:
        """Export until cancelled; after a failure pause for 1, 2, 4 … up to 300 seconds."""
        pause = _LOOK_EVERY
        while True:
            try:
                while await self.export_next():
                    pause = _LOOK_EVERY
            except NotExported as failure:
                metrics.AUDIT_EXPORT_FAILURES.add(self.name)
                log.throttled("error", "audit.not_exported", f"{self.name}: {failure}")
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
            else:
                await rest(_LOOK_EVERY)

    async def export_next(self) -> bool:
        """Export one block; return whether there may be more. Raises NotExported."""
        now = self.runtime.now()
        name, holder = self.name, self._holder
        if not await self.store.read(lambda tx: tx.audit_exports.is_due(name, holder, now)):
            return False
        until = later(now, _LEASE)
        batch = await self.store.write(partial(_claim, name, holder, now, until), done_by=SYSTEM)
        if batch is None:
            return False
        if batch.skipped:
            cause = f"{name}: events expired before they were exported"
            log.throttled("error", "audit.export_gap", cause, blocks=batch.skipped)
        if batch.events:
            await self.deliver(_lines(batch, self.public))
        block = batch.block.number
        return await self.store.write(
            lambda tx: tx.audit_exports.advance(name, holder, block), done_by=SYSTEM
        )


def _claim(name: str, holder: str, now: Instant, until: Instant, tx: Transaction) -> _Batch | None:
    done = tx.audit_exports.claim(name, holder, now, until)
    if done is None:
        return None
    for block in tx.audit_chain.page(done, 1):
        skipped = block.number - done - 1 if done else 0
        return _Batch(block, tx.audit_chain.events_of(block), skipped)
    return None


def _lines(batch: _Batch, public: str) -> list[AuditLine]:
    block = batch.block
    events = sorted(batch.events, key=lambda event: (event.at, event.id))
    members = msgspec.structs.asdict(checkpoint(block, public))
    return [
        *(AuditLine(event.at, event.name, _content(event, block.number)) for event in events),
        AuditLine(block.at, "audit.checkpoint", {"name": "audit.checkpoint", **members}),
    ]


def _content(event: ChainedEvent, block: int) -> dict[str, object]:
    return {
        "id": event.id,
        "at": event.at,
        "name": event.name,
        "client_id": event.client_id,
        "uid": event.uid,
        "grant_id": event.grant_id,
        "done_by": read_back(event.done_by, event.uid, event.client_id),
        "data": msgspec.Raw(event.data.encode()),
        "block": block,
    }


EVERY = 10
"""Seconds from one block to the next, unless enough events for a whole block wait earlier."""


_IDLE = hours(1)
"""Without events, a block is appended this often: retention is computed from the newest block."""

_CHANGED = minutes(1)
_SAID_EVERY = hours(1)


class AuditJob(Struct):
    """Append blocks. Any number of processes may do so concurrently: there is one chain."""

    store: Store
    keep: Retention
    key: CheckpointKey
    runtime: Runtime
    _said_at: Instant = Instant(0)

    async def run(self) -> None:
        """Append due events to the chain every second, until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            while await self.append_due() is not None:
                # Requests first: half of the time is reserved for them.
                await asyncio.sleep(clock() - began)
                began = clock()
            await rest(_LOOK_EVERY)

    async def append_due(self) -> Block | None:
        """Append one block if one is due; return it."""
        now = self.runtime.now()
        if not await self.store.read(partial(_is_due, self.keep, now)):
            return None
        block = await self.store.write(partial(_append, self.keep, self.key, now), done_by=SYSTEM)
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
