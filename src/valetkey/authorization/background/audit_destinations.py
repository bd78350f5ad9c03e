"""Deliver a batch of the audit log to a file, a syslog server (RFC 5424) or an HTTP server."""

import asyncio
import fcntl
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from valetkey.fetch.outbound import OutboundHttp, Unfetchable
from valetkey.kernel.secret import Secret

_WITHIN = 10.0
"""Seconds for connecting, and for each wait of a syslog connection."""

_PRIORITY = 13 * 8 + 6
"""Facility "log audit", severity "informational" (RFC 5424 section 6.2.1)."""

_NAME = 32
_HEARD = range(200, 300)
_JSON = "application/x-ndjson"


class NotExported(Exception):
    """The destination did not accept the batch, or did not confirm it."""


class Line(Struct, frozen=True):
    """One line of a batch: an event, or the checkpoint of its block."""

    at: int
    name: str
    content: Mapping[str, object]

    def encode(self) -> bytes:
        """Return the line as JSON."""
        return msgspec.json.encode(self.content)


Deliver = Callable[[Sequence[Line]], Awaitable[None]]
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

    async def deliver(self, lines: Sequence[Line]) -> None:
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

    async def deliver(self, lines: Sequence[Line]) -> None:
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

    async def deliver(self, lines: Sequence[Line]) -> None:
        """POST the batch."""
        body = b"\n".join(line.encode() for line in lines) + b"\n"
        try:
            answer = await self.http.post(self.url, body, _JSON, authorization=self.authorization)
        except Unfetchable as failure:
            raise NotExported(failure.check) from failure
        if answer.status not in _HEARD:
            raise NotExported(f"status {answer.status}")


def frame(line: Line, host: str) -> bytes:
    """Return an RFC 5424 message with the length that RFC 5425 section 4.3 puts before it."""
    at = datetime.fromtimestamp(line.at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    head = f"<{_PRIORITY}>1 {at} {host[:255] or '-'} valetkey - {line.name[:_NAME]} - "
    message = head.encode("ascii", "replace") + "\ufeff".encode() + line.encode()
    return b"%d %b" % (len(message), message)
