"""Read a request body within its size limit and the worker's memory budget."""

from typing import cast

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.connection.incoming_request import Receive
from valetkey.web.exchange import Headers

_KIB = 1024

SMALL = 64 * _KIB
"""Bytes of a body that need no room in the budget: every form, and nearly all JSON."""

_NO_ROOM = Refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "too many large bodies are on their way here; try again in a moment",
    "http.room",
    retry_after=1,
)


class BodyMemory:
    """The memory budget for request bodies beyond `SMALL` bytes, shared by a worker's requests.

    A body arrives before the client is authenticated. Without a bound, a client could exhaust
    memory by opening many connections and holding back the last byte of each body.
    """

    __slots__ = ("left",)

    def __init__(self, size: int = 64 * _KIB * _KIB) -> None:
        """Allow `size` bytes in total; `left` is what is free."""
        self.left = size


class ClientDisconnected(Exception):
    """The client disconnected before its request was complete."""


def take_body(headers: Headers, body: bytes, limit: int, room: BodyMemory) -> bytes:
    """Return a body that is complete: at most `limit` bytes. Raises Refused (413, 415, 503)."""
    if headers.raw(b"content-encoding") is not None:
        _check_encoding(headers)
    if len(body) > limit:
        raise Refused(_too_large(limit))
    # The body is already complete, so its room is not held, but it must be available.
    if len(body) - SMALL > room.left:
        raise Refused(_NO_ROOM)
    return body


async def read_body(headers: Headers, receive: Receive, limit: int, room: BodyMemory) -> bytes:
    """Return the body: at most `limit` bytes. Raises Refused (400, 413, 415, 503) and Gone."""
    _check_encoding(headers)
    length = headers.get("content-length")
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            description = "Content-Length must be a number"
            raise Refused(Refusal(ErrorCode.INVALID_REQUEST, description, "http.content_length"))
        # Digits are counted first: int() is slow for thousands of digits and then fails.
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


async def _read(receive: Receive, limit: int, room: BodyMemory) -> bytes:
    body = bytearray()
    held = 0
    try:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
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
