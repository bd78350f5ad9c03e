"""Apps with kept connections that run whole flows, each between two moves of the clock."""

import http.client
import random
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from tests.reliability.outcome import percentile
from tests.stories.processes.serving import CALLBACK, CHALLENGE, PASSWORD, SECRET, VERIFIER
from tests.support.wait import CEILING
from valetkey.testing.browser import UserAgent

AUTHORIZE = (
    f"/oauth/authorize?response_type=code&client_id=printer&redirect_uri={CALLBACK}"
    f"&scope=notes:read&code_challenge={CHALLENGE}&code_challenge_method=S256"
)
"""Where a browser asks for a code."""

_PAUSE = 0.002
_KEPT = 200  # grants that an app still refreshes


@dataclass(frozen=True, slots=True)
class Took:
    """When a request began, and how many seconds it took."""

    at: float
    seconds: float


@dataclass
class App:
    """One thread: redeems codes (40 %), refreshes (25 %), asks for itself, introspects, revokes."""

    address: str
    chance: random.Random
    turn: threading.Lock = field(default_factory=threading.Lock)
    """Held during a flow: the clock is not moved meanwhile."""
    answers: Counter[str] = field(default_factory=Counter[str])
    took: list[Took] = field(default_factory=list[Took])
    flows: int = 0
    token: str = ""
    _refreshing: deque[str] = field(default_factory=lambda: deque[str](maxlen=_KEPT))
    _cookies: Mapping[str, str] = field(default_factory=dict[str, str])

    def sign_in(self) -> None:
        """Sign in with a browser of its own, and allow the app once."""
        url = f"http://{self.address}"
        person = UserAgent(url)
        page = person.sign_in(person.open(f"{url}{AUTHORIZE}"), "ada", PASSWORD)
        page = page if page.location else person.allow(page)
        assert page.redirect_parameters["code"]
        self._cookies = person.cookies

    def run(self, over: threading.Event) -> None:
        """Run flows until it is over."""
        connection = http.client.HTTPConnection(self.address, timeout=CEILING)
        while not over.wait(_PAUSE):
            with self.turn:
                (flow,) = self.chance.choices(_FLOWS, weights=_WEIGHTS)
                try:
                    flow(self, connection)
                except (OSError, http.client.HTTPException) as failure:
                    connection.close()
                    self.answers[type(failure).__name__] += 1
                self.flows += 1
        connection.close()

    def redeem(self, connection: http.client.HTTPConnection) -> None:
        """Get a code for the signed-in user, and exchange it."""
        if not (code := self._code(connection)):
            # The session has ended: eight hours without it, or the limit of its life.
            self.sign_in()
            code = self._code(connection)
        got = self._post(
            connection,
            "token",
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
        )
        self._refreshing.append(got.refresh_token)

    def refresh(self, connection: http.client.HTTPConnection) -> None:
        """Rotate the refresh token of any of the grants."""
        if not self._refreshing:
            return self.redeem(connection)
        self._refreshing.rotate(self.chance.randrange(_KEPT))
        token = self._refreshing.popleft()
        got = self._post(connection, "token", grant_type="refresh_token", refresh_token=token)
        self._refreshing.append(got.refresh_token)
        return None

    def ask(self, connection: http.client.HTTPConnection) -> None:
        """Ask for a token of the app's own."""
        self.token = self._post(connection, "token", grant_type="client_credentials").access_token

    def introspect(self, connection: http.client.HTTPConnection) -> None:
        """Ask whether a token is active."""
        self._post(connection, "introspect", token=self.token or "none")

    def revoke(self, connection: http.client.HTTPConnection) -> None:
        """End one grant."""
        if self._refreshing:
            self._post(connection, "revoke", token=self._refreshing.popleft())

    def _code(self, connection: http.client.HTTPConnection) -> str:
        cookies = "; ".join(f"{name}={value}" for name, value in self._cookies.items())
        answer, _ = self._answer(connection, "GET", AUTHORIZE, None, {"Cookie": cookies})
        query = urlsplit(answer.headers.get("location", "")).query
        return parse_qs(query).get("code", [""])[0]

    def _post(self, connection: http.client.HTTPConnection, path: str, **fields: str) -> "_Told":
        form = urlencode({"client_id": "printer", "client_secret": SECRET, **fields})
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        _, body = self._answer(connection, "POST", f"/oauth/{path}", form, kind)
        return _TOLD.decode(body) if path == "token" else _NOTHING

    def _answer(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        body: str | None,
        headers: Mapping[str, str],
    ) -> tuple[http.client.HTTPResponse, bytes]:
        began = time.monotonic()
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        self.took.append(Took(began, time.monotonic() - began))
        self.answers[str(answer.status)] += 1
        return answer, content


class _Told(msgspec.Struct):
    access_token: str = ""
    refresh_token: str = ""


_NOTHING = _Told()
_TOLD = msgspec.json.Decoder(_Told)
_FLOWS: Sequence[Callable[[App, http.client.HTTPConnection], None]] = (
    App.redeem,
    App.refresh,
    App.ask,
    App.introspect,
    App.revoke,
)
_WEIGHTS = (40, 25, 15, 15, 5)


@contextmanager
def flowing(address: str, chance: random.Random, *, apps: int = 4) -> Generator[Sequence[App]]:
    """Apps that run flows for as long as the block lasts."""
    running = [App(address, random.Random(chance.random())) for _ in range(apps)]
    for app in running:
        app.sign_in()
    over = threading.Event()
    threads = [threading.Thread(target=app.run, args=(over,)) for app in running]
    for thread in threads:
        thread.start()
    try:
        yield running
    finally:
        over.set()
        for thread in threads:
            thread.join(CEILING)


@contextmanager
def between_flows(apps: Sequence[App]) -> Generator[None]:
    """No flow runs for as long as the block lasts."""
    with ExitStack() as held:
        for app in apps:
            held.enter_context(app.turn)
        yield


def late(values: Sequence[float]) -> float:
    """The 99th percentile in milliseconds; 0 of none."""
    return 1_000 * percentile(values, 0.99)
