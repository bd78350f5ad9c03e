"""Format responses: their framing, and the fields shared by all responses of one second."""

from uvicorn.server import ServerState


class ResponseFormatter:
    """Formats responses as HTTP/1.1 (RFC 9112)."""

    __slots__ = ("_line", "_pairs", "_state")

    def __init__(self, state: ServerState) -> None:
        """Add the fields of `state` to every response; uvicorn renews them once a second."""
        self._state = state
        self._pairs: list[tuple[bytes, bytes]] = []
        self._line = b""

    def whole(self, top: bytes, length: int | None, body: bytes, *, last: bool) -> bytes:
        """Return a complete response: status line and fields, Content-Length if it has one, body.

        The `last` response announces that the connection closes.
        """
        line = self._line if self._state.default_headers is self._pairs else self._renewed()
        if length is None:
            end = b"connection: close\r\n\r\n" if last else b"\r\n"
            return b"%b%b%b%b" % (top, line, end, body)
        if last:
            end = b"%bcontent-length: %d\r\nconnection: close\r\n\r\n%b"
            return top + end % (line, length, body)
        return b"%b%bcontent-length: %d\r\n\r\n%b" % (top, line, length, body)

    def start(self, top: bytes, *, chunked: bool, last: bool) -> bytes:
        """Return the head of a response of unknown length."""
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        return self.whole(top + framing, None, b"", last=last)

    def _renewed(self) -> bytes:
        self._pairs = self._state.default_headers
        self._line = b"".join(b"%b: %b\r\n" % each for each in self._pairs)
        return self._line
