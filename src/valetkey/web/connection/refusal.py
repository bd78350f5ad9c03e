"""What a connection answers by itself: it is no HTTP, or it is too much."""

from functools import lru_cache

from valetkey.kernel import metrics
from valetkey.kernel.refusal import STATUS, ErrorCode
from valetkey.web.exchange import Response, json_response
from valetkey.web.security_headers import head

COME_AGAIN = 1
"""Seconds that who is turned away is told to wait."""


class Unreadable(Exception):
    """Stops the parser: what was sent is not for the application."""

    def __init__(self, description: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        """Say what is wrong."""
        super().__init__(description)
        self.code = code


_REASONS = {ErrorCode.REQUEST_TIMEOUT: "late", ErrorCode.SERVER_ERROR: "failed"}


def refusal(code: ErrorCode, description: str) -> Response:
    """Return a refusal in JSON, and count it."""
    if code is not ErrorCode.TEMPORARILY_UNAVAILABLE:  # those are counted at the gate
        metrics.HTTP_REFUSED.add(_REASONS.get(code, "malformed"))
    return json_response({"error": code, "error_description": description}, STATUS[code])


_BUSY = refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the server has more to do than it can; try again in a moment",
)
# A page of any origin may read it: else a script could not tell "later" from "never".
_SAID = (("retry-after", str(COME_AGAIN)), ("access-control-allow-origin", "*"))


@lru_cache(maxsize=2)
def busy(*, tls: bool) -> tuple[bytes, bytes]:
    """Head and body of a 503, made beforehand: it must cost next to nothing."""
    return head(_BUSY.status, (*_BUSY.headers, *_SAID), hsts=tls), _BUSY.body
