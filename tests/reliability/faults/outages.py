"""E34: the receiver of webhooks and the mail server fail in every way, under load."""

import http.client
import random
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import psycopg

from bench.ports import free_port
from tests.cli.running import valetkey
from tests.reliability.acknowledged.journal import (
    Verdict,
    acting,
    clients,
    wait_for_actions,
)
from tests.reliability.flows import late
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.support import postgres
from tests.support.wait import wait_until

_FAULTS = ("hang", "refuse", "delay", "garbage")
_ACTIONS = 15  # of each client, before a fault and during it
_SECONDS = 6.0  # that a fault lasts at least, so that messages are tried again during it
_LONGEST = 5.0  # seconds of a request during a fault; a hanging server is given up after more
_ENOUGH = 8  # faults, below which the machine may be busy with other tests
_EVENT = "grant.revoked"
_EVENTS = f"SELECT id FROM events WHERE name = '{_EVENT}'"
_DRIP = 0.5  # seconds between two bytes of a delayed answer
_GARBAGE = bytes(range(1, 256)) * 8
_FINE = {"200", "302", "303"}


@dataclass
class Receiver:
    """A server that answers by `answer`, or fails by `fault`; each connection has a thread."""

    answer: Callable[[socket.socket, "Receiver"], None]
    port: int = field(default_factory=free_port)
    fault: str = ""
    received: list[str] = field(default_factory=list[str])
    """The ids of webhook messages, and one entry for each email with a link to reset a password."""
    failed: int = 0
    """Connections that met a fault."""
    _listening: socket.socket | None = None
    _held: list[socket.socket] = field(default_factory=list[socket.socket])

    def become(self, fault: str) -> None:
        """Fail in this way from now on; "" for not at all. Open connections are closed."""
        self.fault = fault
        for connection in self._held:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._held.clear()
        if fault == "refuse":
            self.end()
        elif self._listening is None:
            self._listening = socket.create_server(("127.0.0.1", self.port), backlog=64)
            threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def end(self) -> None:
        """Listen no more."""
        if self._listening is not None:
            with suppress(OSError):
                self._listening.shutdown(socket.SHUT_RDWR)
            self._listening.close()
            self._listening = None

    def _accept(self, listening: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                self._held.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if not self.fault:
                self.answer(connection, self)
                return
            self.failed += 1
            if self.fault == "garbage":
                connection.sendall(_GARBAGE)
            for byte in b"HTTP/1.1 204 No Content\r\n\r\n" if self.fault == "delay" else b"":
                connection.sendall(bytes((byte,)))
                time.sleep(_DRIP)
            if self.fault == "hang":
                while connection.recv(4_096):
                    pass


def _webhooks(connection: socket.socket, receiver: Receiver) -> None:
    """Accept messages, and note their ids."""
    with connection.makefile("rb") as lines:
        while lines.readline().strip():
            headers = http.client.parse_headers(lines)
            lines.read(int(headers["content-length"]))
            receiver.received.append(headers["webhook-id"])
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")


def _mail(connection: socket.socket, receiver: Receiver) -> None:
    """Accept email (RFC 5321)."""
    connection.sendall(b"220 mail.example\r\n")
    with connection.makefile("rb") as lines:
        for line in lines:
            match line[:4].upper():
                case b"DATA":
                    connection.sendall(b"354 go on\r\n")
                    read = iter(lines.readline, b".\r\n")
                    (subject,) = (header for header in read if header.startswith(b"Subject:"))
                    # Sign-ins are told to users, too.
                    if b"Reset your" in subject:
                        receiver.received.append("email")
                    connection.sendall(b"250 queued\r\n")
                case b"QUIT":
                    connection.sendall(b"221 bye\r\n")
                    return
                case _:
                    connection.sendall(b"250 mail.example\r\n")


def outages(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Have both servers fail `times` on each engine, in every way in turn."""
    verdict, summaries, held = Verdict(), list[str](), True
    engines: Mapping[str, AbstractContextManager[str]] = {
        "SQLite": nullcontext("sqlite:///a/auth.db"),
        "PostgreSQL": postgres.database(),
    }
    for name, own in engines.items():
        with own as database, _receivers() as (hook, mail):
            result = _engine(folder / name, database, hook, mail, times, verdict)
            held = held and result.is_good(exact=times >= _ENOUGH)
            summaries.append(f"{name}: {result}")
    wrong = set(verdict.answers) - _FINE
    return Outcome(
        "E34 webhook receiver and mail server away, under load",
        f"no request fails or takes longer than {_LONGEST:.0f} s while they refuse, hang, delay or "
        "send garbage; each message and email arrives afterwards",
        f"{'; '.join(summaries)}; {verdict}{f'; others: {sorted(wrong)}' if wrong else ''}",
        held and verdict.is_good and not wrong,
    )


@dataclass
class _Found:
    faults: int = 0
    calm: list[float] = field(default_factory=list[float])
    """Seconds of requests without a fault."""
    during: list[float] = field(default_factory=list[float])
    met: int = 0
    """Connections that met a fault."""
    revoked: int = 0
    messages: int = 0
    repeated: int = 0
    sent: int = 0
    arrived: int = 0

    def is_good(self, *, exact: bool) -> bool:
        """Return whether everything arrived and no request waited for the other servers."""
        return (
            self.messages >= self.revoked > 0
            and self.arrived >= self.sent > 0
            and self.met > 0
            and (not exact or max(self.during) < _LONGEST)
        )

    def __str__(self) -> str:
        """Return the counts for a row of the table."""
        return (
            f"{self.faults} faults, met by {self.met} connections; {len(self.during)} requests "
            f"meanwhile, p99 {late(self.during):.0f} ms ({late(self.calm):.0f} ms without), "
            f"longest {max(self.during):.1f} s; {self.revoked} revocations, {self.messages} "
            f"messages arrived, {self.repeated} of them twice; {self.sent} emails, "
            f"{self.arrived} arrived"
        )


def _engine(
    here: Path, database: str, hook: Receiver, mail: Receiver, times: int, verdict: Verdict
) -> _Found:
    address = f"127.0.0.1:{free_port()}"
    node, result = Node(here), _Found()
    configure(here, url=f"http://{address}", listen=address, database=database, more=_more(mail))
    register(here, rotates=True)
    url = f"http://127.0.0.1:{hook.port}/"
    _run(here, "webhook", "create", url, "--event", _EVENT, "--json")
    with stopped_in_the_end(node):
        node.start()
        these = clients(f"http://{address}")
        events: set[str] = set()
        for number in range(times):
            fault = _FAULTS[number % len(_FAULTS)]
            # An address gets a few emails an hour.
            user = f"grace-{number}"
            email = ("--email", f"{user}@example.com", "--email-verified")
            _run(here, "user", "create", user, *email, "--generate-password", "--json")
            with acting(these):
                wait_for_actions(these, _ACTIONS)
                began = time.monotonic()
                for receiver in (hook, mail):
                    receiver.become(fault)
                _run(here, "user", "send-reset", user, "--json")
                result.sent += 1
                wait_for_actions(these, _ACTIONS)
                time.sleep(max(0.0, began + _SECONDS - time.monotonic()))
                ended = time.monotonic()
                for receiver in (hook, mail):
                    receiver.become("")
                result.faults += 1
            for asked_at, answered_at, _ in (
                request for client in these for request in client.asked
            ):
                kept = result.during if began <= asked_at <= ended else result.calm
                kept.append(answered_at - asked_at)
            verdict.judge(these)
            events = _revocations(here, database)
            wait_until(lambda events=events: events <= set(hook.received), "messages are missing")  # type: ignore[misc]
            wait_until(lambda: len(mail.received) >= result.sent, "email is missing")
        result.revoked = len(events)
    result.met = hook.failed + mail.failed
    result.messages = len(set(hook.received))
    result.repeated = len(hook.received) - result.messages
    result.arrived = len(mail.received)
    return result


def _more(mail: Receiver) -> str:
    return (
        '[fetch]\nallow = ["127.0.0.0/8"]\n'
        f'[mail]\nhost = "127.0.0.1"\nport = {mail.port}\ntls = "none"\n'
        'from_address = "login@auth.example"\n'
    )


def _run(here: Path, *arguments: str) -> None:
    ran = valetkey(*arguments, here=here)
    assert ran.code == 0, ran.out + ran.err


def _revocations(here: Path, database: str) -> set[str]:
    """Return the ids of the events that the webhook is for."""
    if database.startswith("sqlite"):
        lite = apsw.Connection(str(here / "a/auth.db"), flags=apsw.SQLITE_OPEN_READONLY)
        ids = {str(id_) for (id_,) in lite.execute(_EVENTS)}
        lite.close()
        return ids
    with psycopg.connect(database) as raw:
        return {str(id_) for (id_,) in raw.execute(_EVENTS.encode()).fetchall()}


@contextmanager
def _receivers() -> Generator[tuple[Receiver, Receiver]]:
    hook, mail = Receiver(_webhooks), Receiver(_mail)
    for receiver in (hook, mail):
        receiver.become("")
    try:
        yield hook, mail
    finally:
        for receiver in (hook, mail):
            receiver.end()
