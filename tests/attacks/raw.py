"""HTTP as bytes on a socket, for what no HTTP library would send."""

import json
import socket
import ssl
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

from tests.support.wait import CEILING

FORM = "application/x-www-form-urlencoded"
HARDENED = (
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "x-frame-options",
    "permissions-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "cache-control",
)
_PATIENCE = CEILING


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer as it came over the wire; the names of its headers in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, str]:
        document: dict[str, str] = json.loads(self.body)
        return document

    def is_hardened(self) -> bool:
        """Whether it has the headers that every answer must have."""
        return all(name in self.headers for name in HARDENED)


def request(
    url: str,
    method: str = "POST",
    target: str = "/oauth/token",
    *,
    headers: Sequence[str] = (),
    body: bytes = b"",
    host: str | None = None,
) -> bytes:
    """A well-formed request but for what is said; give `host` "" to leave the header out.

    A Content-Length is added unless `headers` frame the body themselves.
    """
    authority = urlsplit(url).netloc if host is None else host
    lines = [f"{method} {target} HTTP/1.1"]
    if authority:
        lines.append(f"Host: {authority}")
    lines += headers
    names = {line.partition(":")[0].strip().lower() for line in headers}
    if body and "content-type" not in names:
        lines.append(f"Content-Type: {FORM}")
    if body and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def say(
    url: str,
    sent: bytes,
    *,
    ends: bool = True,
    tls: ssl.SSLContext | None = None,
    method: str = "POST",
) -> list[Reply]:
    """Everything that is answered to these bytes until the server hangs up.

    With `ends`, the server is told that no more will come; it must be False where less is sent than
    was announced. Raises TimeoutError when the server neither answers nor hangs up.
    """
    parts = urlsplit(url)
    with ExitStack() as stack:
        connection: socket.socket = stack.enter_context(
            socket.create_connection((parts.hostname or "", parts.port or 0), timeout=_PATIENCE)
        )
        if tls is not None:
            connection = stack.enter_context(
                tls.wrap_socket(connection, server_hostname=parts.hostname)
            )
        connection.sendall(sent)
        if ends and tls is None:
            connection.shutdown(socket.SHUT_WR)
        heard = bytearray()
        while piece := _receive(connection):
            heard += piece
    return list(_replies(bytes(heard), has_body=method != "HEAD"))


def only(replies: Sequence[Reply]) -> Reply:
    """The one answer there is, held to what every answer owes."""
    assert len(replies) == 1, replies
    assert replies[0].status < 500, replies[0]
    assert replies[0].is_hardened(), replies[0]
    return replies[0]


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65_536)
    except ConnectionResetError:
        return b""


def _replies(heard: bytes, *, has_body: bool) -> Sequence[Reply]:
    replies: list[Reply] = []
    while heard:
        head, end, heard = heard.partition(b"\r\n\r\n")
        assert end, head
        first, *lines = head.decode("latin-1").split("\r\n")
        version, status, *_ = first.split(" ")
        assert version == "HTTP/1.1", first
        if status == "100":
            continue
        pairs = (line.partition(": ") for line in lines)
        headers = {name.lower(): value for name, _, value in pairs}
        length = int(headers.get("content-length", "0")) if has_body else 0
        replies.append(Reply(int(status), headers, heard[:length]))
        heard = heard[length:]
    return replies
