"""The body of a request, read within its limit."""

from typing import cast

from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.connection.exchange import Receive
from valetkey.web.exchange import Headers

_KIB = 1024


class Gone(Exception):
    """The client went away before its request was complete."""


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """All of it, at most `limit` bytes. Raises Refused (400, 413, 415) and Gone."""
    if (headers.get("content-encoding") or "identity").lower() != "identity":
        raise Refused(
            Refusal(
                ErrorCode.UNSUPPORTED_MEDIA_TYPE,
                "a body must not have a Content-Encoding",
                "http.content_encoding",
            )
        )
    length = headers.get("content-length")
    if length is not None:
        if not (length.isascii() and length.isdigit()):
            description = "Content-Length must be a number"
            raise Refused(Refusal(ErrorCode.INVALID_REQUEST, description, "http.content_length"))
        # Digits are counted first: int() of thousands of them is slow, then an error.
        if len(length) > len(str(limit)) or int(length) > limit:
            raise Refused(_too_large(limit))
    return await _read(receive, limit)


async def _read(receive: Receive, limit: int) -> bytes:
    parts: list[bytes] = []
    length = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Gone
        parts.append(cast("bytes", message.get("body", b"")))
        length += len(parts[-1])
        if length > limit:
            raise Refused(_too_large(limit))
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limit: int) -> Refusal:
    description = f"the body has more than {limit // _KIB} KiB"
    return Refusal(ErrorCode.CONTENT_TOO_LARGE, description, "http.body")
