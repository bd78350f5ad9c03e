"""A process that has imported the command line already and forks for each command.

Each command still has a process, a directory and an environment of its own. It only does not spend
half a second on imports, a hundred times over. Servers go on in the same way: what `valetkey serve`
would execute as new Python processes, one by one, is forked and has nothing left to import. The
tests of `valetkey serve` itself run the installed program.

Argument: the descriptor of the socket on which requests come: JSON, with standard input, output and
error as descriptors.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from valetkey.cli.main import COMMANDS, main
from valetkey.cli.serving import supervise

_MODULE = (sys.executable, "-P", "-m")
_SERVERS = ("authorization", "resource")


def serve(requests: socket.socket) -> None:
    while True:
        message, streams, _, _ = socket.recv_fds(requests, 1 << 20, 3)
        if not message:
            return
        request = json.loads(message)
        result = _started(requests, request, streams) if request.get("stays") else None
        if result is None:
            pid = os.fork()
            if pid == 0:
                requests.close()
                become(request, streams)
            _, status = os.waitpid(pid, 0)
            result = os.waitstatus_to_exitcode(status)
        for stream in streams:
            os.close(stream)
        requests.sendall(json.dumps(result).encode())


def _started(requests: socket.socket, request: Mapping[str, Any], streams: Sequence[int]) -> int:
    """Return the id of an orphan, which whoever asked for it adopts."""
    reading, writing = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid == 0:
            requests.close()
            os.close(reading)
            os.close(writing)
            if request["session"]:
                os.setsid()
            os.execve = _execute  # type: ignore[assignment]
            supervise.Popen = Forked  # type: ignore[assignment, attr-defined]
            become(request, streams)
        os.write(writing, str(pid).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        pid = int(pipe.read())
    os.waitpid(between, 0)
    return pid


def become(request: Mapping[str, Any], streams: Sequence[int]) -> NoReturn:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["here"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.argv = request["arguments"]
    _end(main)


class Forked(subprocess.Popen[bytes]):
    """A Python process of this program, forked from this one."""

    def _execute_child(self, args: Sequence[str], *others: Any) -> None:
        _, _, _, pass_fds, _, environment, _, _, _, stdin = others[:10]
        _check(args)
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        self._child_created = True
        if self.pid == 0:
            os.setpgid(0, 0)
            os.dup2(stdin, 0)
            _run(args[3], args[4:], environment, pass_fds)
        self._close_pipe_fds(*others[9:15])  # type: ignore[attr-defined]


def _execute(_: str, arguments: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
    """Do what `os.execve` does, in so far as the next module can see it."""
    _check(arguments)
    inherited = [descriptor for descriptor in _descriptors() if os.get_inheritable(descriptor)]
    _run(arguments[3], arguments[4:], environment, inherited)


def _check(command: Sequence[str]) -> None:
    if tuple(command[:3]) != _MODULE:
        raise AssertionError(f"not a module of this program: {command}")


def _run(
    module: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    inherited: Collection[int],
) -> NoReturn:
    def run() -> None:
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        for descriptor in _descriptors():
            if descriptor > 2 and descriptor not in inherited:
                os.close(descriptor)
        os.environ.clear()
        os.environ.update(environment)
        sys.argv = [module, *arguments]
        sys.modules.pop(module, None)
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    _end(run)


def _end(run: Callable[[], None]) -> NoReturn:
    """End with the exit code of `run`, without destroying every module: half of a short command."""
    code = 1
    try:
        run()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException as error:  # noqa: BLE001
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        with suppress(OSError):
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _descriptors() -> Sequence[int]:
    descriptors = []
    for descriptor in (int(file.name) for file in tuple(Path("/proc/self/fd").iterdir())):
        # One is that of the listing itself.
        with suppress(OSError):
            os.fstat(descriptor)
            descriptors.append(descriptor)
    return descriptors


if __name__ == "__main__":
    for listed in COMMANDS:
        listed.command()
    for name in ("parent", *_SERVERS):
        import_module(f"valetkey.cli.serving.{name}")
    # Forks look for garbage in their own objects only: other pages stay shared.
    gc.collect()
    gc.freeze()
    # Ctrl-C reaches every process of the terminal.
    with suppress(KeyboardInterrupt):
        serve(socket.socket(fileno=int(sys.argv[1])))
