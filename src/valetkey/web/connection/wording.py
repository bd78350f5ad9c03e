"""How answers are written: their framing, and the fields that all answers of a second share."""

from uvicorn.server import ServerState


class Wording:
    """Puts answers into the words of HTTP/1.1 (RFC 9112)."""

    __slots__ = ("_line", "_pairs", "_state")

    def __init__(self, state: ServerState) -> None:
        """Add to every answer what `state` says; uvicorn renews the list once a second."""
        self._state = state
        self._pairs: list[tuple[bytes, bytes]] = []
        self._line = b""

    def whole(self, top: bytes, length: int | None, body: bytes, *, last: bool) -> bytes:
        """An answer: status line and fields, Content-Length if it has one, body.

        After the `last` one the connection closes.
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
        """The head of an answer whose length nobody knows."""
        framing = b"transfer-encoding: chunked\r\n" if chunked else b""
        return self.whole(top + framing, None, b"", last=last)

    def _renewed(self) -> bytes:
        self._pairs = self._state.default_headers
        self._line = b"".join(b"%b: %b\r\n" % each for each in self._pairs)
        return self._line
