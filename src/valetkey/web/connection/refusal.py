"""Responses of the connection itself: invalid HTTP, and too much load."""

from functools import lru_cache

from valetkey.kernel import metrics
from valetkey.kernel.refusal import ErrorCode
from valetkey.web.exchange import Response, json_response
from valetkey.web.security_headers import head

COME_AGAIN = 1
"""Seconds given in Retry-After to a client that is turned away."""


class Unreadable(Exception):
    """Stops the parser: the input is not for the application."""

    def __init__(self, description: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        """Stop with the error code and its description."""
        super().__init__(description)
        self.code = code


_REASONS = {ErrorCode.REQUEST_TIMEOUT: "late", ErrorCode.SERVER_ERROR: "failed"}


def refusal(code: ErrorCode, description: str) -> Response:
    """Return a refusal as JSON and count it."""
    if code is not ErrorCode.TEMPORARILY_UNAVAILABLE:  # the gate counts those
        metrics.HTTP_REFUSED.add(_REASONS.get(code, "malformed"))
    return json_response({"error": code, "error_description": description}, code.status)


_BUSY = refusal(
    ErrorCode.TEMPORARILY_UNAVAILABLE,
    "the server has more to do than it can; try again in a moment",
)
# Readable from any origin: otherwise a script could not tell "later" from "never".
_SAID = (("retry-after", str(COME_AGAIN)), ("access-control-allow-origin", "*"))


@lru_cache(maxsize=2)
def busy(*, tls: bool) -> tuple[bytes, bytes]:
    """Return the head and body of a 503; cached, because it must be cheap under load."""
    return head(_BUSY.status, (*_BUSY.headers, *_SAID), hsts=tls), _BUSY.body
