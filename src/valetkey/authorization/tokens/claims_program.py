"""The process in which an operator's claims file runs: a request a line in, an answer a line out.

It is started by its path and imports nothing of the server, whose memory and secrets it cannot see.
"""

import json
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

_MEMORY = 1 << 29
_LARGEST = 1 << 14
_SECONDS = 10
"""Time after which a call ends this process, in case its server has died."""


def _where(file: str, error: BaseException) -> str:
    """Return the kind of the error and its last line in the file; its text may hold secrets."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    if isinstance(error, SyntaxError):
        lines = [error.lineno]
    return f"{type(error).__name__} in line {lines[-1]}" if lines else type(error).__name__


def _answer(claims: Callable[..., object], file: str, line: bytes) -> bytes:
    try:
        question = json.loads(line)
        result = claims(question["user"], question["client"], question["api"], question["scopes"])
        if not isinstance(result, Mapping):
            return json.dumps({"error": f"{type(result).__name__} instead of a mapping"}).encode()
        values = dict(cast("Mapping[object, object]", result))
        answer = json.dumps({"claims": values}, allow_nan=False).encode()
    except BaseException as error:  # noqa: BLE001 - SystemExit too
        return json.dumps({"error": _where(file, error)}).encode()
    if len(answer) > _LARGEST:
        return json.dumps({"error": f"an answer of {len(answer)} bytes"}).encode()
    return answer


def main(file: str) -> None:
    """Load the file, report success or the error, and answer requests until stdin is closed."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # Output of the file must not be mistaken for a response.
    os.dup2(2, 1)
    symbols: dict[str, object] = {"__name__": "claims"}
    try:
        exec(compile(Path(file).read_bytes(), file, "exec"), symbols)  # noqa: S102 - the operator's
        claims = cast("Callable[..., object]", symbols["claims"])
    except BaseException as error:  # noqa: BLE001 - SystemExit too
        answers.write(json.dumps({"error": _where(file, error)}).encode() + b"\n")
        return
    answers.write(b"{}\n")
    for line in sys.stdin.buffer:
        signal.setitimer(signal.ITIMER_REAL, _SECONDS)
        answer = _answer(claims, file, line)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answer + b"\n")


if __name__ == "__main__":
    main(sys.argv[1])
