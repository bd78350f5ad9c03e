"""Claims that an operator's Python function returns, run in a process of its own.

The function is pure, so that an answer can be kept: a transaction asks for one that is there, and
raises ClaimsNeeded otherwise. Then nothing happened, the function runs outside of it, and the
transaction runs again.

A user's input may make the function hang or crash, which ends the process for everyone. So that
this cannot be repeated at will, further calls for that user are refused for a while, unmade.
"""

import asyncio
import contextlib
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import msgspec
from msgspec import Struct

from valetkey.authorization.model.api import CLAIM_NAME, Claims
from valetkey.authorization.protocol.claims import RESERVED_CLAIMS
from valetkey.authorization.tokens import claims_program
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.strict_json import read_object

T = TypeVar("T")

SECONDS = 1.0
"""Maximum time of one call of the function."""

_START_SECONDS = 10.0
_PAUSE_AFTER_START = 1.0
_SHORTEST_PAUSE = 10.0
_LONGEST_PAUSE = 600.0
_MOST_PAUSED = 1_024
_MOST_WAITING = 64
_MOST_KEPT = 1_024
_MOST_TRIES = 6
"""A response has at most two results; more are needed only where the user changes meanwhile."""

_LONGEST_LINE = 1 << 16


_START = ""
"""The key under which a paused start of the process is recorded."""


class _Backoff(NamedTuple):
    seconds: float
    until: float


class _User(Struct):
    uid: int


class _Client(Struct):
    client_id: str


class _Input(Struct):
    user: _User | None
    client: _Client

    @property
    def whose(self) -> str:
        """The user whose record is the input; the client for its own token."""
        if self.user is None:
            return f"client {self.client.client_id}"
        return f"user {self.user.uid}"


class ClaimsNeeded(Exception):
    """Rolls a transaction back that needs a result of the function, and carries its input."""

    def __init__(self, question: bytes) -> None:
        """Store the encoded input."""
        super().__init__("a result of the claims file is needed")
        self.asked = question


class ClaimsFile:
    """The function `claims` of one file. At most 64 calls wait, and 1,024 results are kept.

    An error that the function raises fails its call alone. A call that hangs or ends the process
    also pauses calls for its user: 10 s, doubled with each further one up to 10 minutes. A function
    that has failed is loaded again once the file is changed.
    """

    def __init__(self, file: Path) -> None:
        """Start no process yet."""
        self.file = file
        self._kept: dict[bytes, Claims] = {}
        self._process: Process | None = None
        self._version: tuple[int, ...] = ()
        self._has_failed = False
        self._paused: dict[str, _Backoff] = {}
        self._turn = asyncio.Lock()
        self._calls: set[asyncio.Task[None]] = set()

    def claims(self, question: Mapping[str, object]) -> Claims:
        """Return the kept result for this input. Raises ClaimsNeeded without one."""
        encoded = msgspec.json.encode(question, order="deterministic")
        result = self._kept.get(encoded)
        if result is None:
            raise ClaimsNeeded(encoded)
        return result

    async def supply(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, and again whenever it needs a result. Raises Refused if there is none."""
        for _ in range(_MOST_TRIES):
            try:
                return await work()
            except ClaimsNeeded as needed:
                await self._call(needed.asked)
        raise self._refused("results that were dropped, or a user who changed, every time")

    async def close(self) -> None:
        """End the process and the calls that wait for it."""
        for call in self._calls:
            call.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        await self._end()

    async def _call(self, question: bytes) -> None:
        if len(self._calls) >= _MOST_WAITING:
            raise self._refused(f"{_MOST_WAITING} calls that wait")
        # Shielded: a client that goes away must not end the process, whose answer is still to come.
        call = asyncio.create_task(self._take_turn(question))
        self._calls.add(call)
        call.add_done_callback(self._done)
        await asyncio.shield(call)

    def _done(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        if not call.cancelled():
            call.exception()  # Retrieved: the caller may be gone.

    async def _take_turn(self, question: bytes) -> None:
        async with self._turn:
            if question in self._kept:
                return
            if self._has_failed and _version(self.file) != self._version:
                await self._end()
                self._paused.clear()
            whose = msgspec.json.decode(question, type=_Input).whose
            if self._process is None:
                await self._start()
            self._refuse_paused(whose)
            try:
                claims = self._checked(await self._exchange(question, whose))
            except Refused:
                self._has_failed = True
                raise
            self._paused.pop(whose, None)
            if len(self._kept) >= _MOST_KEPT:
                del self._kept[next(iter(self._kept))]
            self._kept[question] = claims

    async def _exchange(self, question: bytes, whose: str) -> Mapping[str, object]:
        """Return the process's answer. One that is late or malformed ends the process."""
        is_done = False
        try:
            async with asyncio.timeout(SECONDS):
                answer = await _line(self._process, question + b"\n")
            is_done = True
        except TimeoutError:
            self._pause(whose, _SHORTEST_PAUSE)
            raise self._refused(f"no answer within {SECONDS:g} s") from None
        except (ValueError, OSError):
            self._pause(whose, _SHORTEST_PAUSE)
            raise self._refused("an answer that is too long, or none") from None
        finally:
            if not is_done:
                await self._end()
        return answer

    async def _start(self) -> None:
        """Start the process. After a failure this is refused for a second."""
        self._refuse_paused(_START)
        self._version, self._has_failed = _version(self.file), True
        try:
            self._process = process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", claims_program.__file__, str(self.file)),
                stdin=PIPE,
                stdout=PIPE,
                stderr=DEVNULL,
                env={},
                limit=_LONGEST_LINE,
            )
        except (OSError, RuntimeError, MemoryError) as failure:
            # RuntimeError: without a thread that waits for its end.
            self._pause(_START, _PAUSE_AFTER_START, _PAUSE_AFTER_START)
            raise self._refused(f"no process: {failure}"[:200]) from None
        try:
            async with asyncio.timeout(_START_SECONDS):
                self._require_success(await _line(process, b""))
            self._has_failed = False
        except TimeoutError:
            raise self._refused(f"no start within {_START_SECONDS:g} s") from None
        except (ValueError, OSError):
            raise self._refused("a process that ended when it started") from None
        finally:
            if self._has_failed:
                self._pause(_START, _PAUSE_AFTER_START, _PAUSE_AFTER_START)
                await self._end()

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    def _pause(self, whose: str, shortest: float, longest: float = _LONGEST_PAUSE) -> None:
        before = self._paused.pop(whose, None)
        seconds = shortest if before is None else min(2 * before.seconds, longest)
        if len(self._paused) >= _MOST_PAUSED:
            del self._paused[next(iter(self._paused))]
        self._paused[whose] = _Backoff(seconds, asyncio.get_running_loop().time() + seconds)

    def _refuse_paused(self, whose: str) -> None:
        pause = self._paused.get(whose)
        left = 0.0 if pause is None else pause.until - asyncio.get_running_loop().time()
        if left > 0:
            of = (
                "a process that did not start" if whose == _START else "a call that hung or crashed"
            )
            raise self._refused(f"{of}; the next try is in {left:.0f} s")

    def _require_success(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        if "error" in answer:
            raise self._refused(str(answer["error"])[:200])
        return answer

    def _checked(self, answer: Mapping[str, object]) -> Claims:
        claims = cast("Mapping[str, object]", self._require_success(answer).get("claims", {}))
        for name in claims:
            if name in RESERVED_CLAIMS:
                raise self._refused(f"the claim {name}, which has a meaning of its own")
            if re.fullmatch(CLAIM_NAME, name) is None:
                raise self._refused("a name that no claim can have")
        return {name: value for name, value in claims.items() if value is not None}

    def _refused(self, received: str) -> Refused:
        return Refused.because(
            ErrorCode.TEMPORARILY_UNAVAILABLE,
            "the claims of this token cannot be computed; the operator has to look",
            "claims.file",
            f"a mapping of claims from {self.file.name}",
            received,
        )


def _version(file: Path) -> tuple[int, ...]:
    """Return what differs after a change of the file; () if it cannot be read."""
    try:
        status = file.stat()
    except OSError:
        return ()
    return status.st_ino, status.st_mtime_ns, status.st_size


async def _line(process: Process | None, sent: bytes) -> Mapping[str, object]:
    """Send a line and read one. Raises ValueError or OSError for none, or one that is no object."""
    if process is None or process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    # A process that has ended may have said why, and its line is still to be read.
    with contextlib.suppress(ConnectionError):
        process.stdin.write(sent)
        await process.stdin.drain()
    members = read_object(await process.stdout.readline())
    if members is None:
        raise ValueError("the line is no JSON object")
    return members
