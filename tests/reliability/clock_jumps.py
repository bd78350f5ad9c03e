"""E21: the clock of a node jumps by an hour and by a day and back; two nodes are 30 s apart."""

import random
import shutil
import socket
import socketserver
import threading
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import requests

from bench.ports import free_port
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.reliability.shifted import ShiftedClock
from tests.stories.processes.serving import CALLBACK, CHALLENGE, PASSWORD, SECRET, Serving
from tests.support import postgres
from tests.support.wait import CEILING, wait_until
from valetkey.testing.browser import UserAgent

_HOUR = 3_600
_DAY = 24 * _HOUR
_JUMPS = (_HOUR, _DAY)
_SKEW = 30
_CODE_LIFE = 60
_ACCESS_LIFE = _HOUR
_TOLERANCE = 60
_WINDOW = 900
_AUTHORIZE = (
    f"/oauth/authorize?response_type=code&client_id=printer&redirect_uri={CALLBACK}"
    f"&scope=notes:read&code_challenge={CHALLENGE}&code_challenge_method=S256"
)


@dataclass
class _Visit:
    """One user with a session, a grant and codes, while the clock jumps."""

    site: Serving
    clock: ShiftedClock
    wrong: Counter[str] = field(default_factory=Counter[str])
    checks: int = 0

    def expect(self, actual: object, expected: object, what: str) -> None:
        """Count what is not as it has to be."""
        self.checks += 1
        self.wrong[what] += actual != expected

    def sign_in(self) -> None:
        """Sign in with a browser of its own, and get a grant."""
        self.person = UserAgent(self.site.auth)
        page = self.person.open(f"{self.site.auth}{_AUTHORIZE}")
        page = self.person.sign_in(page, "ada", PASSWORD)
        page = page if page.location else self.person.allow(page)
        self.first = page.redirect_parameters["code"]
        self.tokens = self.site.redeem(self.first).json()

    def code(self) -> str:
        """A code for the session; "" if it has ended."""
        return self.person.open(f"{self.site.auth}{_AUTHORIZE}").redirect_parameters.get("code", "")

    def refresh(self, what: str) -> None:
        """The grant is refreshed, and its token lives as long as ever."""
        answer = self.site.refresh(self.tokens["refresh_token"], "printer")
        self.expect(answer.status_code, 200, f"refresh {what}")
        if answer.status_code == requests.codes.ok:
            self.tokens = answer.json()
            self.expect(self.tokens["expires_in"], _ACCESS_LIFE, f"expires_in {what}")

    def is_active(self, token: str) -> bool:
        """What introspection says."""
        url, credential = f"{self.site.auth}/oauth/introspect", ("printer", SECRET)
        answer = requests.post(url, {"token": token}, auth=credential, timeout=CEILING)
        active: bool = answer.json()["active"]
        return active

    def status(self, code: str) -> int:
        """What redeeming a code is answered with."""
        return self.site.redeem(code).status_code

    @property
    def is_good(self) -> bool:
        """Whether every check passed."""
        return self.checks > 0 and not self.wrong.total()

    def __str__(self) -> str:
        """Return the counts for a row of the table."""
        wrong = {what: count for what, count in self.wrong.items() if count}
        return f"{self.checks} checks, {sum(wrong.values())} failed {wrong or ''}".rstrip()

    def is_ready(self) -> bool:
        """Whether the server says that it can serve."""
        return requests.get(f"{self.site.auth}/health/ready", timeout=CEILING).ok

    def attack(self) -> None:
        """Guess until attempts are delayed."""
        guess = UserAgent(self.site.auth)
        page = guess.open(f"{self.site.auth}/oauth/sign-in")
        wait_until(lambda: guess.sign_in(page, "ada", "wrong").status == 429)


def _forward_and_back(visit: _Visit, jump: int) -> None:
    """Everything that has a life is begun before, between and after two jumps."""
    clock = visit.clock
    base = clock.ahead
    visit.sign_in()
    before, access = visit.code(), visit.tokens["access_token"]
    clock.ahead = base + jump
    visit.expect(visit.is_ready(), True, "ready after a jump forward")
    visit.expect(visit.status(before), 400, "code older than its life")
    visit.expect(visit.is_active(access), False, "access token older than its life")
    if jump < 8 * _HOUR:
        visit.expect(bool(visit.code()), True, "session after a jump forward")
    else:
        visit.sign_in()
    visit.refresh("after a jump forward")
    spent, kept, access = visit.code(), visit.code(), visit.tokens["access_token"]
    visit.expect(visit.status(spent), 200, "code after a jump forward")
    visit.attack()
    clock.ahead = base
    visit.expect(visit.is_ready(), True, "ready after a jump back")
    visit.expect(visit.is_active(access), False, "access token issued in the future")
    if jump < 8 * _HOUR:
        visit.expect(bool(visit.code()), True, "session after a jump back")
    else:
        visit.expect(bool(visit.code()), False, "session begun in the future")
    visit.refresh("after a jump back")
    visit.expect(visit.status(spent), 400, "spent code after a jump back")
    clock.ahead = base + _CODE_LIFE + _TOLERANCE + 1
    visit.expect(visit.status(kept), 400, "life of a code extended by the jump")
    clock.ahead = base + jump + _ACCESS_LIFE + _TOLERANCE + 1
    visit.expect(visit.status(kept), 400, "code older than its life after a jump back")
    visit.expect(visit.is_active(access), False, "life of an access token extended by the jump")
    visit.expect(visit.status(visit.first), 400, "first code after a jump back")
    visit.sign_in()
    visit.refresh("at last")


def clock_jumps(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Jump by an hour and by a day and back again, `times` each, on SQLite."""
    return _jumps(folder, times, "E21 clock jumps", nullcontext("sqlite:///a/auth.db"))


def clock_jumps_on_postgres(folder: Path, times: int, chance: random.Random) -> Outcome:
    """The same on PostgreSQL, whose own clock stays right."""
    return _jumps(folder, times, "E21 clock jumps, PostgreSQL", postgres.database())


def _jumps(folder: Path, times: int, name: str, own: AbstractContextManager[str]) -> Outcome:
    address = f"127.0.0.1:{free_port()}"
    node, clock = Node(folder / "node"), ShiftedClock(folder / "clock")
    node.environment = clock.environment
    with own as database:
        configure(node.here, url=f"http://{address}", listen=address, database=database)
        register(node.here)
        with stopped_in_the_end(node):
            node.start()
            assert node.process is not None
            visit = _Visit(Serving(f"http://{address}", "", node.process), clock)
            for _ in range(times):
                for jump in _JUMPS:
                    _forward_and_back(visit, jump)
                    clock.ahead += _WINDOW
            steps = (node.here / "log").read_text().count('"clock.stepped"')
    promise = "no user is signed out or locked out, nothing works twice or longer than 60 s more"
    counts = f"{times * len(_JUMPS)} jumps by an hour or a day and back; {visit}"
    return Outcome(name, promise, counts, visit.is_good and steps > 0)


def skewed_nodes(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Two nodes on one PostgreSQL, 30 s apart; each in turn goes on with what the other began."""
    clocks = [ShiftedClock(folder / "right"), ShiftedClock(folder / "ahead")]
    clocks[1].ahead = _SKEW
    nodes = [Node(folder / "first"), Node(folder / "second")]
    listens = [f"127.0.0.1:{free_port()}" for _ in nodes]
    port = free_port()
    with postgres.database() as database:
        for node, listen, clock in zip(nodes, listens, clocks, strict=True):
            node.environment = clock.environment
            url = f"http://127.0.0.1:{port}"
            configure(node.here, url=url, listen=listen, database=database)
        register(nodes[0].here)
        for file in ("valetkey.keyring", "authorization.last-seen"):
            with suppress(FileNotFoundError):
                shutil.copy2(nodes[0].here / file, nodes[1].here / file)
        with stopped_in_the_end(*nodes), _switch(port, listens) as switch:
            for node in nodes:
                node.start()
            assert nodes[0].process is not None
            visit = _Visit(Serving(f"http://127.0.0.1:{port}", "", nodes[0].process), clocks[0])
            for number in range(times):
                _one_after_the_other(visit, switch, number % 2)
    promise = "what one node issues works at the other at once, and works once"
    counts = f"{times} visits that begin at one of two nodes {_SKEW} s apart; {visit}"
    return Outcome("E21 skewed nodes, PostgreSQL", promise, counts, visit.is_good)


def _one_after_the_other(visit: _Visit, switch: "_Switch", first: int) -> None:
    """Do each step at another node than the one before."""
    other = 1 - first
    switch.to = first
    visit.sign_in()
    access = visit.tokens["access_token"]
    switch.to = other
    visit.expect(visit.is_active(access), True, "access token at the other node")
    visit.expect(bool(code := visit.code()), True, "session at the other node")
    switch.to = first
    visit.expect(visit.status(code), 200, "code of the other node")
    switch.to = other
    visit.expect(visit.status(code), 400, "spent code at the other node")
    visit.sign_in()
    for node in (first, other, first):
        switch.to = node
        visit.refresh("at alternating nodes")
        visit.expect(visit.is_active(visit.tokens["access_token"]), True, "fresh access token")


@dataclass
class _Switch:
    """Which of the nodes new connections are passed to."""

    to: int = 0


@contextmanager
def _switch(port: int, listens: Sequence[str]) -> Generator[_Switch]:
    """Pass connections on to the chosen node, until the block ends."""
    switch = _Switch()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            host, _, number = listens[switch.to].partition(":")
            with socket.create_connection((host, int(number))) as node:
                back = threading.Thread(target=_pass_on, args=(node, self.request))
                back.start()
                _pass_on(self.request, node)
                back.join(CEILING)

    with socketserver.ThreadingTCPServer(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield switch
        finally:
            server.shutdown()
            thread.join(CEILING)


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)
