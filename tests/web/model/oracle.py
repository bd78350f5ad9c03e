"""What h11 finds in the bytes that were sent, and what a client hears in those that came back."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import h11

from tests.web.model.traffic import Message


@dataclass
class Expected:
    """What the answers must be, and what comes after them."""

    answers: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    then: str = "idle"  # or "close", "refused", "incomplete"


def seen(method: str, query: str, body: bytes) -> bytes:
    """What an endpoint says about a request."""
    return f"{method} {query} {len(body)} {zlib.crc32(body)}".encode()


def judge(messages: Sequence[Message], sent: bytes) -> Expected:
    """What h11 finds in what was sent, with our own rules on top."""
    prefix, then = _known(messages, sent)
    expected = Expected()
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1_000_000)
    connection.receive_data(prefix)
    try:
        while True:
            request, body = _next(connection)
            if request is None:
                break
            status, answer = _answer(request, body)
            if status == 500:
                expected.then = "refused"
                return expected
            expected.answers.append((status, answer))
            connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            if _upgrades(request) or connection.our_state is not h11.DONE:
                expected.then = "close"
                return expected
            connection.start_next_cycle()
    except h11.RemoteProtocolError:
        expected.then = "refused"
        return expected
    # What h11 still holds is the beginning of a request.
    began = connection.their_state is h11.SEND_BODY or connection.trailing_data[0]
    expected.then = "incomplete" if began else then
    return expected


def _known(messages: Sequence[Message], sent: bytes) -> tuple[bytes, str]:
    # What h11 may see, and what follows that.
    prefix = b""
    for message in messages:
        if len(prefix) > len(sent):
            return sent, "idle"
        if message.is_refused:
            if len(prefix + message.header) <= len(sent):
                return prefix, "refused"
            return prefix, "incomplete" if len(prefix) < len(sent) else "idle"
        prefix += message.header + message.body
        if message.ends:
            break
    return prefix[: len(sent)], "idle"


def _next(connection: h11.Connection) -> tuple[h11.Request | None, bytes]:
    # The next complete request, and its body.
    request, body = None, b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return request, body
        else:
            return None, b""


def _upgrades(request: h11.Request) -> bool:
    return {(b"connection", b"upgrade"), (b"upgrade", b"h2c")} <= {*request.headers}


def _answer(request: h11.Request, body: bytes) -> tuple[int, bytes]:
    method = request.method.decode()
    path, _, query = request.target.decode().partition("?")
    if path == "/cancelled":
        return 500, b""
    if path not in {"/echo", "/later", "/stream"}:
        return 404, b""
    return 200, b"" if method == "HEAD" else seen(method, query, body)


def heard(answers: bytes) -> list[tuple[int, bytes, bool]]:
    """Status and body of each answer, and whether it is whole; 404s are not read."""
    results: list[tuple[int, bytes, bool]] = []
    at = 0
    while at < len(answers):
        end = answers.find(b"\r\n\r\n", at)
        assert end > 0, answers[at:]
        head = answers[at:end].lower()
        at = end + 4
        status = int(head[9:12])
        assert head.startswith(b"http/1.1 ")
        if status == 100:
            continue
        body, whole = b"", True
        _, stated, length = head.partition(b"\r\ncontent-length: ")
        if b"\r\ntransfer-encoding: chunked" in head:
            while True:
                line = answers.find(b"\r\n", at)
                if line < 0:
                    whole = False
                    at = len(answers)
                    break
                size = int(answers[at:line], 16)
                body += answers[line + 2 : line + 2 + size]
                at = line + 4 + size
                if not size:
                    break
        elif stated:
            size = int(length.split(b"\r\n")[0])
            if answers[at : at + 9] != b"HTTP/1.1 ":  # else it answers HEAD, and has no body
                body = answers[at : at + size]
                at += size
        else:
            body, whole = answers[at:], False  # it ends with the connection
            at = len(answers)
        results.append((status, body if status == 200 else b"", whole))
    return results
