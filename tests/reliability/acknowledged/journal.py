"""Clients that note what was acknowledged, and the check of their notes after a fault."""

import http.client
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field

import requests

from tests.stories.processes.serving import CALLBACK, CHALLENGE, PASSWORD, SECRET, VERIFIER
from tests.support.wait import CEILING, wait_until
from valetkey.testing.browser import UserAgent

_REFRESHING = 4
_REDEEMING = 2
_PAUSE = 0.005
_MOST = 4_000  # tokens of one client that are looked up; evenly spread if there are more
_AUTHORIZE = (
    f"/oauth/authorize?response_type=code&client_id=printer&redirect_uri={CALLBACK}"
    f"&scope=notes:read&code_challenge={CHALLENGE}&code_challenge_method=S256"
)


@dataclass
class Journal:
    """What one client was told. An answer that did not arrive completely is in no list."""

    tokens: list[str] = field(default_factory=list[str])
    """Access tokens."""
    revoked: list[str] = field(default_factory=list[str])
    """Access tokens of revoked grants."""
    spent: list[str] = field(default_factory=list[str])
    """Redeemed codes."""
    answers: Counter[str] = field(default_factory=Counter[str])
    """Statuses, and exceptions by name."""

    @property
    def size(self) -> int:
        """Return the number of acknowledged tokens, revocations and codes."""
        return len(self.tokens) + len(self.revoked) + len(self.spent)

    def copy(self) -> "Journal":
        """Return the notes so far."""
        return Journal(self.tokens[:], self.revoked[:], self.spent[:], self.answers.copy())


class Client:
    """One app. `act` makes its requests once and returns whether all were acknowledged."""

    def __init__(self, url: str) -> None:
        """Connect at the first request."""
        self.url = url
        self.journal = Journal()
        self.done: list[float] = []
        """When each acknowledged action began."""
        self.asked: list[tuple[float, float, bool]] = []
        """When each request began and ended, and whether it got an answer."""
        self._session = requests.Session()

    def act(self) -> bool:
        raise NotImplementedError

    def run(self, over: threading.Event, pause: float) -> None:
        """Act until it is over, with a pause of so many seconds before each action."""
        while not over.wait(pause):
            began = time.monotonic()
            if self.act():
                self.done.append(began)

    def ask(self, path: str, **fields: str) -> requests.Response | None:
        """Send a request with the app's credentials. None if the connection was lost."""
        form = {"client_id": "printer", "client_secret": SECRET, **fields}
        began = time.monotonic()
        try:
            answer = self._session.post(f"{self.url}/oauth/{path}", form, timeout=CEILING)
        except requests.RequestException as failure:
            self.asked.append((began, time.monotonic(), False))
            self.journal.answers[type(failure).__name__] += 1
            return None
        self.asked.append((began, time.monotonic(), True))
        valid = answer.status_code != requests.codes.unavailable or "retry-after" in answer.headers
        self.journal.answers[str(answer.status_code) if valid else "503 without Retry-After"] += 1
        return answer

    def tokens(self, **fields: str) -> dict[str, str] | None:
        """Request tokens. None without an acknowledgement."""
        answer = self.ask("token", **fields)
        if answer is None or answer.status_code != requests.codes.ok:
            return None
        got: dict[str, str] = answer.json()
        return got

    def redeem(self, code: str) -> dict[str, str] | None:
        """Exchange a code."""
        return self.tokens(
            grant_type="authorization_code",
            code=code,
            redirect_uri=CALLBACK,
            code_verifier=VERIFIER,
        )

    def is_active(self, token: str) -> bool:
        """Return what introspection says."""
        answer = self.ask("introspect", token=token)
        assert answer is not None
        active: bool = answer.json()["active"]
        return active


class Refreshing(Client):
    """Refreshes one grant. An unacknowledged request is repeated with the same token."""

    def __init__(self, url: str, token: str) -> None:
        """Begin with this refresh token."""
        super().__init__(url)
        self.token = token

    def act(self) -> bool:
        """Refresh."""
        got = self.tokens(grant_type="refresh_token", refresh_token=self.token)
        if got is None:
            return False
        self.token = got["refresh_token"]
        self.journal.tokens.append(got["access_token"])
        return True


class Redeeming(Client):
    """Gets codes, redeems each, and revokes every second grant."""

    def __init__(self, url: str, person: UserAgent) -> None:
        """Ask for codes with the session of `person`."""
        super().__init__(url)
        self.person = person
        self._keeps = False
        self.redeemed = 0
        """How many codes, of whichever action."""

    def code(self) -> str:
        """Return a code for the signed-in user, who allowed it once; "" without an answer."""
        began = time.monotonic()
        try:
            page = self.person.open(f"{self.url}{_AUTHORIZE}")
        except (OSError, http.client.HTTPException) as failure:
            self.asked.append((began, time.monotonic(), False))
            self.journal.answers[type(failure).__name__] += 1
            return ""
        self.asked.append((began, time.monotonic(), True))
        self.journal.answers[str(page.status)] += 1
        return page.redirect_parameters.get("code", "")

    def act(self) -> bool:
        """Get a code and redeem it; revoke every second time."""
        if not (code := self.code()) or (got := self.redeem(code)) is None:
            return False
        self.redeemed += 1
        self._keeps = not self._keeps
        if self._keeps:
            self.journal.spent.append(code)
            self.journal.tokens.append(got["access_token"])
            return True
        answer = self.ask("revoke", token=got["refresh_token"])
        if answer is None or answer.status_code != requests.codes.ok:
            # Whether the grant is revoked is unknown.
            return False
        self.journal.revoked.append(got["access_token"])
        return True


def clients(url: str) -> Sequence[Client]:
    """Sign in, allow the app, and return clients that refresh and redeem."""
    person = UserAgent(url)
    page = person.sign_in(person.open(f"{url}{_AUTHORIZE}"), "ada", PASSWORD)
    first = Redeeming(url, person)
    code = page.redirect_parameters.get("code") or person.allow(page).redirect_parameters["code"]
    codes = [code, *(first.code() for _ in range(_REFRESHING - 1))]
    redeemed = [first.redeem(code) for code in codes]
    return [
        *(Refreshing(url, got["refresh_token"]) for got in redeemed if got is not None),
        *(Redeeming(url, person) for _ in range(_REDEEMING)),
    ]


@contextmanager
def acting(these: Sequence[Client], *, pause: float = _PAUSE) -> Generator[None]:
    """Have the clients act, with empty journals, until the block ends."""
    for client in these:
        client.journal, client.done, client.asked = Journal(), [], []
    over = threading.Event()
    threads = [threading.Thread(target=client.run, args=(over, pause)) for client in these]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(CEILING)


def wait_for_actions(these: Sequence[Client], count: int) -> None:
    """Wait until each client has done `count` more."""
    goals = [len(client.done) + count for client in these]
    wait_until(
        lambda: all(len(client.done) >= all_ for client, all_ in zip(these, goals, strict=True)),
        "nothing is acknowledged any more",
    )


def wait_for_recovery(
    these: Sequence[Client], supervise: Callable[[], object] = lambda: None
) -> float:
    """Wait until an action of each client began after now and succeeded; return the seconds.

    `supervise` is called again and again meanwhile.
    """
    began = time.monotonic()

    def is_recovered() -> bool:
        supervise()
        return all(client.done and client.done[-1] > began for client in these)

    wait_until(is_recovered, "it does not recover")
    return time.monotonic() - began


@dataclass
class Verdict:
    """What was acknowledged in all rounds, and what the check found."""

    acknowledged: int = 0
    checked: int = 0
    lost: int = 0
    twice: int = 0
    answers: Counter[str] = field(default_factory=Counter[str])

    @property
    def is_good(self) -> bool:
        """Whether nothing was lost and no code worked twice."""
        return self.checked > 0 and not (self.lost or self.twice)

    def __str__(self) -> str:
        """Return the counts for a row of the table."""
        looked_up = "" if self.checked == self.acknowledged else f", {self.checked} looked up"
        return (
            f"{self.acknowledged} acknowledged tokens, revocations and codes{looked_up}: "
            f"{self.lost} lost, {self.twice} codes redeemed twice"
        )

    def judge(self, these: Sequence[Client]) -> None:
        """Look up what the clients noted, then use their refresh tokens and codes again."""
        notes = [client.journal.copy() for client in these]
        for note in notes:
            self.acknowledged += note.size
            self.answers += note.answers
        with ThreadPoolExecutor(len(these)) as threads:
            self._add(threads.map(_look_up, these, notes))
            self.lost += sum(threads.map(_is_stuck, these))
            # Last: a code that is used again ends its grant.
            self.twice += sum(threads.map(_used_again, these, notes))
        self.checked += sum(len(note.spent) for note in notes)

    def look_up(self, these: Sequence[Client], notes: Sequence[Journal]) -> None:
        """Look up tokens and revocations only, which changes nothing."""
        self.acknowledged += sum(len(note.tokens) + len(note.revoked) for note in notes)
        with ThreadPoolExecutor(len(these)) as threads:
            self._add(threads.map(_look_up, these, notes))

    def _add(self, counts: Iterable[tuple[int, int]]) -> None:
        for checked, lost in counts:
            self.checked += checked
            self.lost += lost


def count_active(these: Sequence[Client], notes: Sequence[Journal]) -> int:
    """Return how many of the access tokens are active, of revoked grants or not."""

    def count(client: Client, note: Journal) -> int:
        return sum(client.is_active(token) for token in (*note.tokens, *note.revoked))

    with ThreadPoolExecutor(len(these)) as threads:
        return sum(threads.map(count, these, notes))


def _look_up(client: Client, note: Journal) -> tuple[int, int]:
    """Return how many tokens were looked up, and how many were not as acknowledged."""
    ask: Callable[[str], bool] = client.is_active
    live, dead = _spread(note.tokens), _spread(note.revoked)
    lost = sum(not ask(token) for token in live) + sum(ask(token) for token in dead)
    return len(live) + len(dead), lost


def _spread(tokens: Sequence[str]) -> Sequence[str]:
    return tokens[:: 1 + len(tokens) // _MOST]


def _is_stuck(client: Client) -> bool:
    """Return whether the last refresh token that was acknowledged does not work."""
    return isinstance(client, Refreshing) and not client.act()


def _used_again(client: Client, note: Journal) -> int:
    return sum(client.redeem(code) is not None for code in note.spent)
