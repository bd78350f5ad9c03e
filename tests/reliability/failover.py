"""E08: kill the primary of a PostgreSQL pair under load, and promote its synchronous standby."""

import random
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import requests

from bench.ports import free_port
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.stories.processes.serving import CALLBACK, CHALLENGE, PASSWORD, SECRET, VERIFIER
from tests.support import postgres
from tests.support.wait import CEILING, wait_until
from valetkey.testing.browser import UserAgent

_STANDBY = "standby"
_REFRESHING = 4
_REDEEMING = 2
_BEFORE = 20  # acknowledged requests of each client before the kill
_LONGEST = 15.0  # seconds without a token, 95th percentile
_PAUSE = 0.005
_AUTHORIZE = (
    f"/oauth/authorize?response_type=code&client_id=printer&redirect_uri={CALLBACK}"
    f"&scope=notes:read&code_challenge={CHALLENGE}&code_challenge_method=S256"
)


@dataclass
class _Journal:
    """What was acknowledged, by one round's clients together."""

    tokens: list[str] = field(default_factory=list[str])
    revoked: list[str] = field(default_factory=list[str])
    spent: list[str] = field(default_factory=list[str])
    answers: Counter[str] = field(default_factory=Counter[str])

    @property
    def size(self) -> int:
        """Answers 200 whose effect has to be there after the failover."""
        return len(self.tokens) + len(self.revoked) + len(self.spent)


@dataclass
class _Totals:
    """What all rounds found."""

    acknowledged: int = 0
    lost: int = 0
    twice: int = 0
    gaps: list[float] = field(default_factory=list[float])
    answers: Counter[str] = field(default_factory=Counter[str])


class _Client:
    """One app: `act` asks once and says whether everything was acknowledged."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.journal = _Journal()
        self.done: list[float] = []
        """When an action began that was acknowledged."""

    def act(self) -> bool:
        raise NotImplementedError

    def run(self, over: threading.Event) -> None:
        """Act over and over."""
        while not over.wait(_PAUSE):
            began = time.monotonic()
            if self.act():
                self.done.append(began)

    def ask(self, path: str, **said: str) -> requests.Response | None:
        """A request of the app's; None if the connection was lost."""
        form = {"client_id": "printer", "client_secret": SECRET, **said}
        try:
            answer = requests.post(f"{self.url}/oauth/{path}", form, timeout=CEILING)
        except requests.RequestException as failure:
            self.journal.answers[type(failure).__name__] += 1
            return None
        known = answer.status_code != 503 or "retry-after" in answer.headers
        self.journal.answers[str(answer.status_code) if known else "503 without Retry-After"] += 1
        return answer

    def tokens(self, **said: str) -> dict[str, str] | None:
        """What a token request got; its access token is noted."""
        answer = self.ask("token", **said)
        if answer is None or answer.status_code != requests.codes.ok:
            return None
        got: dict[str, str] = answer.json()
        self.journal.tokens.append(got["access_token"])
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
        """What introspection says."""
        answer = self.ask("introspect", token=token)
        assert answer is not None
        active: bool = answer.json()["active"]
        return active


class _Refreshing(_Client):
    """Refreshes one grant; what was not acknowledged is asked again with the same token."""

    def __init__(self, url: str, token: str) -> None:
        super().__init__(url)
        self.token = token

    def act(self) -> bool:
        got = self.tokens(grant_type="refresh_token", refresh_token=self.token)
        self.token = got["refresh_token"] if got else self.token
        return got is not None


class _Redeeming(_Client):
    """Gets codes, redeems each, and revokes every second grant."""

    def __init__(self, url: str, person: UserAgent) -> None:
        super().__init__(url)
        self._person = person

    def code(self) -> str:
        """A code for the signed-in user, who allowed it once; "" while there is none."""
        try:
            page = self._person.open(f"{self.url}{_AUTHORIZE}")
        except OSError as failure:
            self.journal.answers[type(failure).__name__] += 1
            return ""
        self.journal.answers[str(page.status)] += 1
        return page.redirect_parameters.get("code", "")

    def act(self) -> bool:
        if not (code := self.code()) or (got := self.redeem(code)) is None:
            return False
        self.journal.spent.append(code)
        if len(self.journal.spent) % 2:
            return True
        answer = self.ask("revoke", token=got["refresh_token"])
        # Revoked or not: without an answer nobody knows.
        self.journal.tokens.remove(got["access_token"])
        self.journal.spent.remove(code)
        if answer is None or answer.status_code != requests.codes.ok:
            return False
        self.journal.revoked.append(got["access_token"])
        return True


@contextmanager
def _acting(clients: Sequence[_Client]) -> Generator[None]:
    over = threading.Event()
    threads = [threading.Thread(target=each.run, args=(over,)) for each in clients]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(CEILING)


def failover(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Kill -9 of the primary under load, promotion, and a new standby in its place; `times`."""
    address = f"127.0.0.1:{free_port()}"
    node, url, totals = Node(folder / "node"), f"http://{address}", _Totals()
    with postgres.own_server() as first, postgres.standby(first, _STANDBY) as second:
        pair = (first, second)
        hosts = f"host={first},{second}&target_session_attrs=read-write"
        database = f"postgresql://{postgres.USER}@/postgres?{hosts}"
        _synchronous(first)
        configure(node.here, url=url, listen=address, database=database)
        register(node.here)
        with stopped_in_the_end(node):
            node.start()
            clients = _clients(url)
            for number in range(times):
                _round(clients, *pair, totals)
                pair = (pair[1], pair[0])
                if number < times - 1:
                    postgres.follow(pair[1], pair[0], _STANDBY)
                    _synchronous(pair[0])
    totals.gaps.sort()
    late = totals.gaps[min(len(totals.gaps) - 1, int(len(totals.gaps) * 0.95))]
    held = not (totals.lost or totals.twice) and late < _LONGEST and set(totals.answers) <= _FINE
    counts = (
        f"{times} failovers, {totals.acknowledged} acknowledged tokens, revocations and codes: "
        f"{totals.lost} lost, {totals.twice} codes redeemed twice; back after "
        f"{totals.gaps[len(totals.gaps) // 2]:.1f} s (median), {late:.1f} s (p95); "
        f"{totals.answers['503']} answers 503"
    )
    promise = "nothing acknowledged is lost, nothing works twice, back within 15 s at p95"
    return Outcome("E08 failover to a synchronous standby", promise, counts, held)


# 400: a code or its replay whose first answer was lost in the failover.
_FINE = {"200", "302", "303", "400", "503"}


def _clients(url: str) -> Sequence[_Client]:
    person = UserAgent(url)
    page = person.sign_in(person.open(f"{url}{_AUTHORIZE}"), "ada", PASSWORD)
    first = _Redeeming(url, person)
    codes = [
        person.allow(page).redirect_parameters["code"],
        *(first.code() for _ in range(_REFRESHING - 1)),
    ]
    redeemed = [first.redeem(code) for code in codes]
    return [
        *(_Refreshing(url, got["refresh_token"]) for got in redeemed if got is not None),
        *(_Redeeming(url, person) for _ in range(_REDEEMING)),
    ]


def _round(clients: Sequence[_Client], primary: Path, standby: Path, totals: _Totals) -> None:
    for each in clients:
        each.journal, each.done = _Journal(), []
    with _acting(clients):
        wait_until(lambda: all(len(each.done) >= _BEFORE for each in clients))
        postgres.kill(primary / "data")
        killed = time.monotonic()
        postgres.promote(standby / "data")
        wait_until(lambda: all(each.done[-1] > killed for each in clients), "it does not recover")
        totals.gaps.append(time.monotonic() - killed)
    for each in clients:
        totals.acknowledged += each.journal.size
        totals.answers += each.journal.answers
        _judge(each, totals)


def _judge(client: _Client, totals: _Totals) -> None:
    """Look for everything that was acknowledged; last of all use each code again."""
    found, ask = client.journal, client.is_active
    totals.lost += sum(not ask(token) for token in found.tokens)
    totals.lost += sum(ask(token) for token in found.revoked)
    if isinstance(client, _Refreshing):
        totals.lost += not client.act()
    totals.twice += sum(client.redeem(code) is not None for code in tuple(found.spent))


def _synchronous(primary: Path) -> None:
    """Have the primary wait for its standby before it acknowledges anything."""
    with psycopg.connect(postgres.url(primary, "postgres"), autocommit=True) as raw:
        raw.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{_STANDBY}'".encode())
        raw.execute(b"SELECT pg_reload_conf()")

        def joined() -> bool:
            row = raw.execute(b"SELECT sync_state FROM pg_stat_replication").fetchone()
            return row == ("sync",)

        wait_until(joined, "the standby does not join")
