"""The plan of the supervisor process, and the temporary directory that its run shares."""

import fcntl
import json
import os
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import NoReturn

import msgspec
from msgspec import Struct

from valetkey.cli.serving.supervise import collect_orphans
from valetkey.config.environment import environment
from valetkey.kernel.moment import Instant

METRICS = "VALETKEY_METRICS"
"""The environment variable that holds a worker's `Scraping`."""

NODE = "VALETKEY_NODE"
"""The environment variable with the id that the workers of one supervisor share."""


class ServerPlan(Struct, frozen=True):
    """One server: its name, the descriptors of its sockets, and its number of workers.

    The sockets speak TLS with the files `tls`: certificate chain and key. The workers' environment
    includes the variables in `environment` and excludes those that `withheld` names.
    """

    name: str
    listening: tuple[int, ...]
    workers: int
    environment: Mapping[str, str]
    withheld: tuple[str, ...] = ()
    passed: tuple[int, ...] = ()
    """Other descriptors to pass to the workers."""
    tls: tuple[str, ...] = ()
    silent: tuple[int, ...] = ()
    """The descriptors of sockets whose connections wait while no worker is ready."""


class Plan(Struct, frozen=True):
    """The servers in the order in which they start, and settings common to all of them.

    `ready` is the text printed when all are ready, `file` the configuration or "", or the folder of
    `several`, and `folder` a directory removed at the end; `level` and `style` are those of the
    log. `drain` is in seconds, `fixed` lists what a reload cannot change (see `recheck`), and
    `notes` are the files that hold the process id. With `terminal`, the servers end when it is
    closed. The descriptor `lock` keeps another start from removing `folder`.
    """

    servers: tuple[ServerPlan, ...]
    ready: str
    file: str
    folder: str
    level: str
    style: str
    drain: int
    fixed: Mapping[str, str]
    notes: tuple[str, ...]
    terminal: bool
    lock: int
    several: bool = False

    def take_over(self) -> NoReturn:
        """Replace this process by the supervisor, which gets this plan; its sockets stay open.

        The signals that stop it are blocked from before the folder is made until it handles them.

        Otherwise the modules that read a configuration would stay in memory for as long as servers
        run.
        """
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            # A few hundred bytes and some paths: less than a pipe holds before it is read.
            pipe.write(msgspec.json.encode(self))
        theirs = (n for server in self.servers for n in (*server.listening, *server.passed))
        for descriptor in (reading, self.lock, *theirs):
            os.set_inheritable(descriptor, True)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        collect_orphans()
        # -P: no module is imported from the working directory.
        program = [sys.executable, "-P", "-m", "valetkey.cli.serving.parent", str(reading)]
        os.execve(sys.executable, program, environment())


class Scraping(Struct, frozen=True):
    """The addresses and token with which a worker reports the metrics of all workers."""

    descriptor: int
    """The descriptor of the listening socket."""
    folder: str
    """The directory of the workers' Unix sockets, accessible only to this user."""
    workers: Mapping[str, int]
    """The number of workers of each server."""

    def text(self) -> str:
        """Return the value for the environment variable `METRICS`."""
        return msgspec.json.encode(self).decode()

    @staticmethod
    def read(text: str) -> "Scraping":
        """Parse the value of the environment variable `METRICS`."""
        return Scraping(**json.loads(text))


_PREFIX = "valetkey-run-"
_LONGEST = 60
"""Characters of a directory in which the address of a worker's Unix socket fits (unix(7))."""
_MOST = 100  # directories of killed runs that one start removes
_NEW = 60  # seconds in which a directory may belong to a start that has not locked it yet


def begin(now: Instant) -> tuple[Path, int]:
    """Make the directory, which no other user can enter; return it and the descriptor of its lock.

    Directories of killed runs are removed: their locks are free.
    """
    parent = Path("/tmp" if len(gettempdir()) > _LONGEST else gettempdir())  # noqa: S108
    for old in islice(parent.glob(f"{_PREFIX}*"), _MOST):
        # Another user's, or removed by another start at this moment.
        with suppress(OSError):
            if old.lstat().st_mtime < now - _NEW:
                _remove_abandoned(old)
    folder = Path(mkdtemp(prefix=_PREFIX, dir=parent))
    return folder, _locked(folder)


def _remove_abandoned(folder: Path) -> None:
    descriptor = _locked(folder)
    try:
        if folder.stat().st_uid == os.geteuid():
            shutil.rmtree(folder)
    finally:
        os.close(descriptor)


def _locked(folder: Path) -> int:
    """Lock the directory; raises OSError while its run continues."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
