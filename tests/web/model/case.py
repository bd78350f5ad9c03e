"""One connection of ours and its client, which does what clients do at any moment."""

import asyncio
import random
from collections.abc import AsyncGenerator
from itertools import pairwise

from tests.web import RUNTIME, refuse
from tests.web.model.oracle import heard, judge, seen
from tests.web.model.traffic import Message, make
from tests.web.virtual import VirtualConnection, VirtualLoop
from valetkey.web.connection.gate import Limits
from valetkey.web.exchange import Request, Response
from valetkey.web.router import Body, Route, RoutedApp

LIMITS = Limits()
SWEEP = 0.25 + 1e-6
"""How late a deadline may be noticed: the gate looks every quarter of the shortest."""


class Application:
    """Endpoints that answer with what they were asked."""

    def __init__(self) -> None:
        self.working = 0
        """Complete requests that are not answered yet."""
        routes = (
            Route("/echo", dict.fromkeys(("GET", "HEAD", "POST"), self._echo), refuse, Body.ANY),
            Route("/later", dict.fromkeys(("GET", "POST"), self._later), refuse, Body.ANY),
            Route("/stream", dict.fromkeys(("GET", "POST"), self._stream), refuse, Body.ANY),
            Route("/cancelled", {"GET": self._cancelled}, refuse),
        )
        self.app = RoutedApp(routes, runtime=RUNTIME, refuse=refuse, hosts=("h.example",))

    async def _echo(self, request: Request) -> Response:
        return Response(200, seen(request.method, request.query, request.body))

    async def _later(self, request: Request) -> Response:
        self.working += 1
        try:
            await asyncio.sleep(0.05)
        finally:
            self.working -= 1
        return Response(200, seen(request.method, request.query, request.body))

    async def _cancelled(self, request: Request) -> Response:
        raise asyncio.CancelledError

    async def _stream(self, request: Request) -> Response:
        return Response(200, b"", stream=self._pieces(request))

    async def _pieces(self, request: Request) -> AsyncGenerator[bytes]:
        whole = seen(request.method, request.query, request.body)
        self.working += 1
        try:
            for at in range(0, len(whole), 8):
                yield whole[at : at + 8]
                await asyncio.sleep(0.01)
        finally:
            self.working -= 1


class Case:
    """One connection and its client."""

    def __init__(self, seed: int) -> None:
        self.random = r = random.Random(seed)
        self.messages = [make(r) for _ in range(r.choice((1, 2, 2, 3, 5)))]
        whole = b"".join(message.header + message.body for message in self.messages)
        self.sent = whole[: r.randint(0, len(whole))] if r.random() < 0.3 else whole
        self.corrupted = r.random() < 0.1 and b"/echo" in self.sent and b"/can" not in self.sent
        if self.sent is whole and not self.corrupted:
            self.sent = b"".join(
                message.empty + message.header + message.body for message in self.messages
            )
        else:
            for message in self.messages:
                message.empty = b""
        if self.corrupted:
            at = r.randrange(len(self.sent))
            change = r.choice((b"\r", b"\n", b"\t", b"\x00", b"0", b":", bytes([r.randrange(256)])))
            if not self._is_in_header(at) or r.random() < 0.2:
                change = b""  # h11 takes no line ends before a request
            self.sent = self.sent[:at] + change + self.sent[at + r.randint(0, 2) :]
            self.messages = [Message(self.sent)]
        self.expected = judge(self.messages, self.sent)
        self.tls = r.random() < 0.3
        self.mode = r.choice(("silence",) * 5 + ("half-close", "lose", "starve", "slow"))
        self.times: list[tuple[int, float]] = []

    def _is_in_header(self, position: int) -> bool:
        start = 0
        for message in self.messages:
            if start < position < start + len(message.header) - 4:  # not in its last line ends
                return True
            start += len(message.header) + len(message.body)
        return False

    def run(self) -> None:
        """Raises AssertionError for what must not be."""
        loop, application = VirtualLoop(), Application()
        with loop.running():
            self.application = application
            self.connection = VirtualConnection(loop, application.app, LIMITS, tls=self.tls)
            self.loop, self.transport = loop, self.connection.transport
            self._play()
            assert len(self.connection.gate) == 0
            assert self.connection.gate.enter("", ())
            assert self.connection.gate._at_work == 1
        loop.close()

    def _play(self) -> None:
        r, transport, loop = self.random, self.transport, self.loop
        if r.random() < 0.3:
            transport.press()  # as TLS does while session tickets are written
        if r.random() < 0.4:
            transport.stops_at = sorted(r.sample(range(1, 6_000), r.randint(1, 6)))
        for end, piece in self._pieces():
            self._act()
            self._wait_for_reading()
            if transport.is_closing() or transport.said_everything:
                break
            self.connection.protocol.data_received(piece)
            self.times.append((end, loop.now))
            if r.random() < 0.8:
                loop.settle()
            if self.mode == "lose" and r.random() < 0.3:
                break
        loop.settle()
        self._finish()

    def _pieces(self) -> list[tuple[int, bytes]]:
        r, sent = self.random, self.sent
        cuts = {r.randrange(len(sent)) for _ in range(r.choice((0, 1, 3, 8)))} if sent else set()
        at = 0
        for message in self.messages:  # between header and body, and between requests
            for part in (message.empty, message.header, message.body):
                at += len(part)
                if at < len(sent) and r.random() < 0.4:
                    cuts.add(at)
        places = [0, *sorted(cuts - {0}), len(sent)]
        return [(b, sent[a:b]) for a, b in pairwise(places) if a < b]

    def _act(self) -> None:
        r = self.random
        for _ in range(r.choice((0, 0, 1, 2))):
            act = r.random()
            if act < 0.25:
                self.transport.press()
            elif act < 0.6:
                self.transport.release()
            elif act < 0.7 and self.mode == "slow":
                self.loop.advance(r.choice((4.0, 9.0, 12.0)))
            else:
                self.loop.advance(r.choice((0.001, 0.02, 0.1)))

    def _wait_for_reading(self) -> None:
        transport = self.transport
        for _ in range(1_000):
            if not self._is_blocked():
                return
            self.loop.settle()
            if self._is_blocked() and transport.pressed:
                transport.release()
            elif self._is_blocked():
                assert self.application.working, "nothing is read, and nothing waits"
                self.loop.advance(0.02)
        raise AssertionError("nothing is read for long")

    def _is_blocked(self) -> bool:
        return not (self.transport.reading or self.transport.is_closing())

    def _finish(self) -> None:
        transport, loop = self.transport, self.loop
        self.silent_since = loop.now
        if self.mode == "lose":
            transport.lose()
            loop.advance(1)
            self._check_prefix()
            return
        if self.mode == "half-close" and transport.reading and not transport.is_closing():
            transport.end()
            self._run_out(LIMITS.body + SWEEP)
            if not self.tls and b"/stream" not in self.sent and self._came_completely():
                self._check_answers(refused_when_incomplete=False)
            else:
                self._check_prefix()
            return
        if self.mode == "starve":
            transport.press()
            loop.advance(LIMITS.write + 2 * SWEEP)
            assert transport.closed
            self._check_prefix()
            return
        self._run_out(LIMITS.idle + SWEEP)
        if self.mode == "slow" or not self._came_completely():
            self._check_prefix()
        else:
            self._check_answers(refused_when_incomplete=True)
            if not self.corrupted:
                self._check_deadline()

    def _came_completely(self) -> bool:
        return not self.sent or (bool(self.times) and self.times[-1][0] == len(self.sent))

    def _run_out(self, limit: float) -> None:
        # The client reads whatever comes; the connection must end by itself.
        transport, loop = self.transport, self.loop
        transport.stops_at = []
        quiet_since = loop.now
        size = -1
        while not transport.closed:
            transport.release()
            loop.advance(0.05)
            if len(transport.heard) != size:
                size, quiet_since = len(transport.heard), loop.now
            assert loop.now - quiet_since <= limit + LIMITS.linger + SWEEP + 0.1, "never ends"

    def _check_answers(self, *, refused_when_incomplete: bool) -> None:
        expected = self.expected
        got = heard(self.connection.heard)
        answers = [(status, body) for status, body, _ in got]
        assert all(whole for _, _, whole in got[:-1])
        last = answers[-1][0] if answers else 0
        if self.corrupted:
            self._check_prefix()
            return
        if answers == expected.answers[: len(answers)] and self._may_end_after(len(answers)):
            return
        if expected.then == "refused":
            assert last in {400, 414, 431, 500}, (last, expected)
            answers.pop()
        elif expected.then == "incomplete" and (
            refused_when_incomplete or len(answers) > len(expected.answers)
        ):
            index = len(answers) - 1
            early = index < len(self.messages) and (
                self.messages[index].is_broken or self.messages[index].is_refused
            )
            answered = last == 404 and index < len(self.messages) and self.messages[index].may_end
            assert last == 408 or (early and last == 400) or answered, (last, expected)
            answers.pop()
        assert answers == expected.answers, (answers, expected)

    def _may_end_after(self, count: int) -> bool:
        # Whether the last of so many answers may have come before its request was complete.
        return 0 < count <= len(self.messages) and self.messages[count - 1].may_end

    def _check_prefix(self) -> None:
        # What was answered is what h11 found, as far as it goes; we may be stricter.
        got = heard(self.connection.heard)
        for index, (status, body, whole) in enumerate(got):
            if status == 200:
                assert index < len(self.expected.answers), (got, self.expected)
                expected_body = self.expected.answers[index][1]
                assert body == expected_body if whole else expected_body.startswith(body), (
                    got,
                    self.expected,
                )
            else:
                assert 400 <= status <= 500, (got, self.expected)

    def _check_deadline(self) -> None:
        got = heard(self.connection.heard)
        if not got or got[-1][0] != 408:
            return
        start = 0
        for message in self.messages[: len(got) - 1]:
            start += len(message.header) + len(message.body)
        message = self.messages[len(got) - 1]
        if message.is_broken or message.is_refused:  # all of it is called its header
            return
        in_body = start + len(message.header) <= len(self.sent)
        owed = start + len(message.header) - 1 if in_body else start
        came = next(at for end, at in self.times if end > owed)
        limit = LIMITS.body if in_body else LIMITS.header
        assert self.transport.written_at >= came + limit - 1e-6
        # The answers before it take a moment too, and the client was silent since `_finish`.
        assert self.transport.written_at <= self.silent_since + limit + SWEEP + 1.0
