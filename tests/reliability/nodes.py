"""One authorization server as a process that is started, stopped and started again."""

import socket
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar, Literal

from tests.cli.running import PROGRAM, Running, clean_environment, valetkey
from tests.stories.processes.serving import REGISTER, kill_together
from tests.support.processes import workers
from tests.support.wait import CEILING

DRAIN = 2
"""Seconds; longer than the proxy of these experiments keeps an idle connection."""

# Where sd_listen_fds(3) looks for it.
_ACTIVATED = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


def configure(here: Path, *, url: str, listen: str, database: str, more: str = "") -> None:
    """Write the configuration of a node; the resource server is not run."""
    here.mkdir(exist_ok=True)
    (here / "valetkey.toml").write_text(
        f'[authorization]\nurl = "{url}"\nlisten = "{listen}"\ndatabase = "{database}"\n'
        f'[tokens]\nsigning_algorithms = ["ES256"]\n[log]\nlevel = "warning"\n{more}'
    )


def register(here: Path, more: str = "", *, rotates: bool = False) -> None:
    """Make the clients and users of every story, and with them keyring and database.

    If it `rotates`, the printer's refresh tokens do.
    """
    text = REGISTER
    if rotates:
        text = text.replace('id = "printer"', 'id = "printer"\nrotates_refresh_token = true')
    (here / "register.toml").write_text(text + more)
    done = valetkey("apply", "register.toml", "--yes", here=here)
    assert done.code == 0, done.out + done.err


class Node:
    """A server in a folder; with `listening`, on a socket that was opened for it."""

    as_installed: ClassVar[bool] = False
    """Whether all nodes run the installed program, imports and all."""

    def __init__(
        self,
        here: Path,
        listening: socket.socket | None = None,
        *,
        server: Literal["authorization", "resource"] | None = "authorization",
    ) -> None:
        """Start nothing yet; without a `server` both are run."""
        self.here = here
        self.process: subprocess.Popen[str] | None = None
        self.source: Path | None = None
        """The folder of another version's source; None for this one's."""
        self.drain = 0
        """Seconds in which its clients notice that it stops; `DRAIN` where none may fail then."""
        self.environment: Mapping[str, str] = {}
        """Variables beside those of a clean environment."""
        self.under: Sequence[str] = ()
        """A command that runs the server, and its options."""
        self._listening = listening
        self._command: Sequence[str] = (str(PROGRAM), "serve", *([server] if server else ()))

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        command: Sequence[str] = self._command
        passed: Sequence[int] = ()
        if self._listening is not None:
            passed = (self._listening.fileno(),)
            command = (sys.executable, "-c", _ACTIVATED, str(passed[0]), *command)
        command = (*self.under, *command)
        environment = self.variables()
        imports = self.as_installed or self.under or passed or "PYTHONPATH" in environment
        with (self.here / "log").open("ab") as log:
            self.process = (subprocess.Popen if imports else Running)(
                command,
                cwd=self.here,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                pass_fds=passed,
                start_new_session=True,
            )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith("ready "), (self.here / "log").read_text()

    def refusal(self) -> str:
        """What it says when it does not start."""
        done = subprocess.run(
            self._command,
            cwd=self.here,
            env=self.variables(),
            capture_output=True,
            text=True,
            timeout=CEILING,
            check=False,
        )
        assert done.returncode, done.stdout
        return done.stderr

    def variables(self) -> Mapping[str, str]:
        """Return the environment of its programs."""
        source = {"PYTHONPATH": str(self.source)} if self.source else {}
        drain = {"VALETKEY__SERVING__DRAIN": f"{self.drain}"}
        return {**clean_environment(), **source, **drain, **self.environment}

    def stop(self) -> None:
        """Stop it as a service manager does, and wait until it has ended."""
        if self.process is not None:
            self.process.terminate()
            assert self.process.wait(CEILING) == 0
            if self.process.stdout is not None:
                self.process.stdout.close()
            self.process = None

    def kill(self) -> None:
        """Kill -9 of every process of it at once."""
        assert self.process is not None
        kill_together(self.process)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process = None

    def workers(self) -> list[int]:
        """The processes that answer."""
        assert self.process is not None
        return workers(self.process.pid)


@contextmanager
def stopped_in_the_end(*nodes: Node) -> Generator[None]:
    """Nodes that run, until the block ends."""
    try:
        yield
    finally:
        for node in nodes:
            node.stop()
