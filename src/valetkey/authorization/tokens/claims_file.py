"""Claims that an operator's Python function returns, run in a process of its own.

The function is pure, so that an answer can be kept: a transaction asks for one that is there, and
raises ClaimsNeeded otherwise. Then nothing happened, the function runs outside of it, and the
transaction runs again.
"""

import asyncio
import contextlib
import re
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TypeVar, cast

import msgspec

from valetkey.authorization.model.register.claim import CLAIM_NAME, Claims
from valetkey.authorization.protocol.claims import RESERVED_CLAIMS
from valetkey.authorization.tokens import claims_program
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.strict_json import read_object

T = TypeVar("T")

SECONDS = 1.0
"""Maximum time of one call of the function."""

_START_SECONDS = 10.0
_MOST_WAITING = 64
_MOST_KEPT = 1_024
_MOST_TRIES = 6
"""A response has at most two results; more are needed only where the user changes meanwhile."""

_LONGEST_LINE = 1 << 16


class ClaimsNeeded(Exception):
    """Rolls a transaction back that needs a result of the function, and carries its input."""

    def __init__(self, asked: bytes) -> None:
        """Hold the encoded input."""
        super().__init__("a result of the claims file is needed")
        self.asked = asked


class ClaimsFile:
    """The function `claims` of one file. At most 64 calls wait, and 1,024 results are kept."""

    def __init__(self, file: Path) -> None:
        """Start no process yet."""
        self.file = file
        self._kept: dict[bytes, Claims] = {}
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    def claims(self, asked: Mapping[str, object]) -> Claims:
        """Return the kept result for this input. Raises ClaimsNeeded without one."""
        encoded = msgspec.json.encode(asked, order="deterministic")
        found = self._kept.get(encoded)
        if found is None:
            raise ClaimsNeeded(encoded)
        return found

    async def supply(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do the work, and again whenever it needs a result. Raises Refused if there is none."""
        for _ in range(_MOST_TRIES):
            try:
                return await work()
            except ClaimsNeeded as needed:
                await self._call(needed.asked)
        raise self._refused("results that were dropped, or a user who changed, every time")

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _call(self, asked: bytes) -> None:
        if self._waiting >= _MOST_WAITING:
            raise self._refused(f"{_MOST_WAITING} calls that wait")
        self._waiting += 1
        try:
            async with self._turn:
                if asked not in self._kept:
                    try:
                        claims = self._checked(await self._exchange(asked))
                    except Refused:
                        # The next call starts it again, with the file as the operator left it.
                        await self.close()
                        raise
                    if len(self._kept) >= _MOST_KEPT:
                        del self._kept[next(iter(self._kept))]
                    self._kept[asked] = claims
        finally:
            self._waiting -= 1

    async def _exchange(self, asked: bytes) -> Mapping[str, object]:
        """Return the process's answer. One that is late or malformed ends the process."""
        is_done = False
        try:
            process = self._process or await self._start()
            async with asyncio.timeout(SECONDS):
                answer = await _line(process, asked + b"\n")
            is_done = True
        except TimeoutError:
            raise self._refused(f"no answer within {SECONDS:g} s") from None
        except (ValueError, OSError):
            raise self._refused("an answer that is too long, or none") from None
        finally:
            # Also where the caller is gone: the answer to come would be taken for that of the next.
            if not is_done:
                await self.close()
        return answer

    async def _start(self) -> Process:
        program = claims_program.__file__
        self._process = process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", program, str(self.file)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={},
            limit=_LONGEST_LINE,
        )
        async with asyncio.timeout(_START_SECONDS):
            self._said(await _line(process, b""))
        return process

    def _said(self, answer: Mapping[str, object]) -> Mapping[str, object]:
        if "error" in answer:
            raise self._refused(str(answer["error"])[:200])
        return answer

    def _checked(self, answer: Mapping[str, object]) -> Claims:
        claims = cast("Mapping[str, object]", self._said(answer).get("claims", {}))
        for name in claims:
            if name in RESERVED_CLAIMS:
                raise self._refused(f"the claim {name}, which has a meaning of its own")
            if re.fullmatch(CLAIM_NAME, name) is None:
                raise self._refused("a name that no claim can have")
        return {name: value for name, value in claims.items() if value is not None}

    def _refused(self, received: str) -> Refused:
        return Refused(
            Refusal(
                ErrorCode.TEMPORARILY_UNAVAILABLE,
                "the claims of this token cannot be computed; the operator has to look",
                "claims.file",
                f"a mapping of claims from {self.file.name}",
                received,
            )
        )


async def _line(process: Process, sent: bytes) -> Mapping[str, object]:
    """Send a line and read one. Raises ValueError or OSError for none, or one that is no object."""
    if process.stdin is None or process.stdout is None:
        raise OSError("the process has no pipes")
    process.stdin.write(sent)
    await process.stdin.drain()
    said = read_object(await process.stdout.readline())
    if said is None:
        raise ValueError("the line is no JSON object")
    return said
