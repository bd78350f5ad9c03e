"""Running the real program: in a process of its own, in a directory of its own."""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from valetkey.cli.serving.supervise import collect_orphans

PROGRAM = Path(sys.executable).with_name("valetkey")
_PRELOADED = Path(__file__).with_name("preloaded.py")
# Without it one thread could receive the exit code of the other's command.
_TURN = threading.Lock()


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def valetkey(
    *arguments: str, here: Path, typed: str = "", environment: dict[str, str] | None = None
) -> Ran:
    """Run `valetkey` with these arguments in the directory `here`, not on a terminal."""
    request = {
        "arguments": ("valetkey", *arguments),
        "here": str(here),
        "environment": {**clean_environment(), **(environment or {})},
    }
    with (
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as out,
        tempfile.TemporaryFile() as err,
    ):
        stdin.write(typed.encode())
        stdin.seek(0)
        with _TURN:
            code = _asked(request, [stdin.fileno(), out.fileno(), err.fileno()])
        for stream in (out, err):
            stream.seek(0)
        return Ran(code, out.read().decode(), err.read().decode())


class Running(subprocess.Popen[str]):
    """The same command as a process that stays, such as `serve`; its arguments are a Popen's.

    It differs from the installed program in that nothing is imported: see `preloaded`.
    """

    def _execute_child(self, args: Sequence[str], *others: Any) -> None:
        _, _, _, _, here, environment, _, _, _, *pipes = others
        request = {
            "arguments": args,
            "here": str(here or "."),
            "environment": environment,
            "stays": True,
            "session": bool(others[20]),
        }
        own = (0, 1, 2)
        streams = [s if s != -1 else own[n] for n, s in enumerate((pipes[0], pipes[3], pipes[5]))]
        with _TURN, _adopting():
            self.pid = _asked(request, streams)
        self._child_created = True
        self._close_pipe_fds(*pipes[:6])  # type: ignore[attr-defined]


def valetkey_from_the_shell(*arguments: str, here: Path) -> Ran:
    """The same by the installed program, imports and all."""
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=here,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def clean_environment() -> dict[str, str]:
    """This process's environment without settings that would change what a test sees.

    Servers stop without draining: no test waits for load balancers.
    """
    ours = {name: value for name, value in os.environ.items() if not name.startswith("VALETKEY")}
    return {**ours, "VALETKEY__SERVING__DRAIN": "0"}


def _asked(request: Mapping[str, object], streams: Sequence[int]) -> int:
    requests = _preloaded()
    socket.send_fds(requests, [json.dumps(request).encode()], streams)
    result: int = json.loads(requests.recv(64))
    return result


@contextmanager
def _adopting() -> Generator[None]:
    """Become the parent of processes that are orphaned meanwhile."""
    collect_orphans()
    try:
        yield
    finally:
        collect_orphans(ours=False)


@cache
def _preloaded() -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.settimeout(120)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", str(_PRELOADED), str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait(60)

    atexit.register(end)
    return ours
