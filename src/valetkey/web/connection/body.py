"""The body of a request, read within its limit and within what there is room for."""

from typing import cast

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.connection.asked import Receive
from valetkey.web.exchange import Headers

_KIB = 1024

SMALL = 64 * _KIB
"""Bytes of every body that always find room: all forms, and nearly all JSON."""

_NO_ROOM = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "too many large bodies are on their way here; try again in a moment",
    "http.room",
    retry_after=1,
)


class Room:
    """Memory for what bodies have beyond `SMALL` bytes, shared by all requests of a worker.

    A body comes before anybody has shown a token: without a bound, who opens many connections and
    keeps back the last byte of each could fill the memory.
    """

    __slots__ = ("left",)

    def __init__(self, size: int = 64 * _KIB * _KIB) -> None:
        """Room for `size` bytes; `left` is what nobody holds."""
        self.left = size


class Gone(Exception):
    """The client went away before its request was complete."""


def take_body(headers: Headers, body: bytes, limit: int, room: Room) -> bytes:
    """`body`, which came as a whole: at most `limit` bytes. Raises Refused (413, 415, 503)."""
    if headers.raw(b"content-encoding") is not None:
        _check_encoding(headers)
    if len(body) > limit:
        raise Refused(_too_large(limit))
    # Nobody waits for the rest of it: the room is taken for no time at all, but it must be there.
    if len(body) - SMALL > room.left:
        raise Refused(_NO_ROOM)
    return body


async def read_body(headers: Headers, receive: Receive, limit: int, room: Room) -> bytes:
    """All of it, at most `limit` bytes. Raises Refused (400, 413, 415, 503) and Gone."""
    _check_encoding(headers)
    length = headers.get("content-length")
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            description = "Content-Length must be a number"
            raise Refused(Refusal(ErrorCode.INVALID_REQUEST, description, "http.content_length"))
        # Digits are counted first: int() of thousands of them is slow, then an error.
        if len(length) > len(str(limit)) or int(length) > limit:
            raise Refused(_too_large(limit))
    return await _read(receive, limit, room)


def _check_encoding(headers: Headers) -> None:
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        raise Refused(
            Refusal(
                ErrorCode.UNSUPPORTED_MEDIA_TYPE,
                "a body must not have a Content-Encoding",
                "http.content_encoding",
            )
        )


async def _read(receive: Receive, limit: int, room: Room) -> bytes:
    body = bytearray()
    held = 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise Gone
            body += cast("bytes", message.get("body", b""))
            if len(body) > limit:
                raise Refused(_too_large(limit))
            more = max(0, len(body) - SMALL) - held
            if more > room.left:
                raise Refused(_NO_ROOM)
            room.left -= more
            held += more
            if not message.get("more_body"):
                return bytes(body)
    finally:
        room.left += held


def _too_large(limit: int) -> Refusal:
    description = f"the body has more than {limit // _KIB} KiB"
    return Refusal(ErrorCode.CONTENT_TOO_LARGE, description, "http.body")
