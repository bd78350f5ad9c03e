"""Clients with kept connections that ask for tokens all the time, and count what they get."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from tests.stories.processes.serving import SECRET
from tests.support.wait import CEILING

_FORM = urlencode(
    {"grant_type": "client_credentials", "client_id": "printer", "client_secret": SECRET}
)
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded"}
_PAUSE = 0.01


@dataclass
class Load:
    """Requests of several clients; `answers` counts statuses, and exceptions by name."""

    address: str
    host: str
    pause: float = _PAUSE
    """Seconds between two requests of one client."""
    answers: Counter[str] = field(default_factory=Counter[str])
    took: list[float] = field(default_factory=list[float])
    """The seconds of each request."""
    _over: threading.Event = field(default_factory=threading.Event)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def longest(self) -> float:
        """The seconds of the longest request so far."""
        return max(self.took, default=0.0)

    @property
    def total(self) -> int:
        """Requests so far."""
        return sum(self.answers.values())

    @property
    def failed(self) -> int:
        """Requests that were not answered with a token."""
        return self.total - self.answers["200"]

    def ask(self) -> None:
        """Ask over one connection after the other, until the load is over."""
        connection = http.client.HTTPConnection(self.address, timeout=CEILING)
        while not self._over.wait(self.pause):
            began = time.monotonic()
            try:
                connection.request("POST", "/oauth/token", _FORM, {**_HEADERS, "Host": self.host})
                answer = connection.getresponse()
                answer.read()
                outcome = str(answer.status)
            except (OSError, http.client.HTTPException) as failure:
                connection.close()
                outcome = type(failure).__name__
            with self._turn:
                self.answers[outcome] += 1
                self.took.append(time.monotonic() - began)
        connection.close()

    def end(self) -> None:
        """Have every client finish what it asked."""
        self._over.set()


@contextmanager
def asking(address: str, host: str, *, clients: int = 4, pause: float = _PAUSE) -> Generator[Load]:
    """Load on `address`, whose Host is `host`, for as long as the block lasts."""
    load = Load(address, host, pause)
    threads = [threading.Thread(target=load.ask) for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield load
    finally:
        load.end()
        for thread in threads:
            thread.join(CEILING)
