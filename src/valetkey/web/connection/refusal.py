"""What a connection answers by itself: it is no HTTP, or it is too much."""

from valetkey.kernel.refusal import STATUS, ErrorCode
from valetkey.web.exchange import json_response
from valetkey.web.security_headers import RawPairs, harden

BUSY = 503
"""The status of a request that came when too many others were at work."""


class Unreadable(Exception):
    """Stops the parser: what was sent is not for the application."""

    def __init__(self, description: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        """Say what is wrong."""
        super().__init__(description)
        self.code = code


def refusal(code: ErrorCode, description: str, *, tls: bool) -> tuple[int, RawPairs, bytes]:
    """Status, header fields and body of a no in JSON."""
    response = json_response({"error": code, "error_description": description}, STATUS[code])
    headers = harden(response.headers, hsts=tls)
    headers.append((b"content-length", b"%d" % len(response.body)))
    return response.status, headers, response.body


def _busy(*, tls: bool) -> tuple[RawPairs, bytes]:
    _, headers, body = refusal(
        ErrorCode.TEMPORARILY_UNAVAILABLE,
        "the server has more to do than it can; try again in a moment",
        tls=tls,
    )
    # A page of any origin may read it: else a script could not tell "later" from "never".
    said = ((b"retry-after", b"1"), (b"access-control-allow-origin", b"*"))
    return [*headers, *said], body


_IN_CLEAR, _BY_TLS = _busy(tls=False), _busy(tls=True)


def busy(*, tls: bool) -> tuple[RawPairs, bytes]:
    """Header fields and body of a 503, made beforehand: it must cost next to nothing."""
    return _BY_TLS if tls else _IN_CLEAR
