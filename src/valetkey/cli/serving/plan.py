"""What the process that supervises is told: all that was found out before it takes over."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import NoReturn

from valetkey.cli.serving.places import collect_orphans
from valetkey.cli.serving.supervise import STOPS
from valetkey.config.environment import environment

METRICS = "VALETKEY_METRICS"
"""The environment variable by which a worker is told of a `Scraping`."""


@dataclass(frozen=True, slots=True)
class Answering:
    """One server: its name, the descriptors of its sockets, and its number of workers.

    With `tls` the sockets speak TLS.
    They are given the variables in `given`, and none of those that `withheld` names.
    """

    name: str
    listening: tuple[int, ...]
    workers: int
    given: Mapping[str, str]
    withheld: tuple[str, ...] = ()
    passed: tuple[int, ...] = ()
    """Other descriptors that are theirs."""
    tls: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """The servers, in the order in which they start, and what all of them have in common.

    `ready` is the line that says that they are, `file` the configuration or "", `folder` what is to
    be gone when they are; `level` and `style` are those of the log. `drain` is in seconds, `fixed`
    is what a reload cannot change (see `recheck`), `notes` are the files that name the process.
    """

    servers: tuple[Answering, ...]
    ready: str
    file: str
    folder: str
    level: str
    style: str
    drain: int
    fixed: Mapping[str, str]
    notes: tuple[str, ...]

    def take_over(self) -> NoReturn:
        """Have another program take the place of this one, with this plan; its sockets stay open.

        What it takes to read a configuration would else be in memory for as long as servers run.
        """
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as pipe:
            # A few hundred bytes, and paths: less than any pipe holds before somebody reads.
            pipe.write(json.dumps(asdict(self)).encode())
        theirs = (n for server in self.servers for n in (*server.listening, *server.passed))
        for descriptor in (reading, *theirs):
            os.set_inheritable(descriptor, True)
        # Held back until the other program can hear them.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        collect_orphans()
        # -P: what lies in the working directory is nobody's module.
        program = [sys.executable, "-P", "-m", "valetkey.cli.serving.parent", str(reading)]
        os.execve(sys.executable, program, environment())


@dataclass(frozen=True, slots=True)
class Scraping:
    """What a worker has to know to answer for the metrics of all."""

    descriptor: int
    """The number of the listening socket's descriptor."""
    folder: str
    """Where the workers' Unix sockets are; nobody else may enter it."""
    workers: Mapping[str, int]
    """How many workers each server has."""

    def text(self) -> str:
        """As the environment variable `METRICS` holds it."""
        return json.dumps(asdict(self))

    @staticmethod
    def read(text: str) -> "Scraping":
        """The same from that text."""
        return Scraping(**json.loads(text))
