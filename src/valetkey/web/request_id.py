"""The id of a request: the proxy's, or one of our own."""

import re
from collections.abc import Callable
from itertools import count

from valetkey.kernel.secret import to_base64url
from valetkey.web.client_address import Proxies
from valetkey.web.connection.incoming_request import IncomingRequest

_GIVEN = re.compile(rb"[A-Za-z0-9._+/=@:-]{1,128}")


class RequestIds:
    """Name requests: by `X-Request-Id` of a trusted proxy, else by process and number."""

    __slots__ = ("_numbers", "_process", "_proxies")

    def __init__(self, proxies: Proxies, random: Callable[[int], bytes]) -> None:
        """Believe `proxies`."""
        self._proxies = proxies
        self._process = f"{to_base64url(random(6))}-"
        self._numbers = count(1)

    def of(self, asked: IncomingRequest) -> str:
        """Return the id of a request."""
        given = asked.headers.raw(b"x-request-id")
        # Any other client could imitate other requests in the log.
        if given and self._proxies.trusts(asked.peer) and _GIVEN.fullmatch(given):
            return given.decode("ascii")
        return f"{self._process}{next(self._numbers):x}"
