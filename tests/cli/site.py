"""A site in a folder of its own: a configuration, and the real servers on free ports."""

import atexit
import re
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.ports import free_port
from tests.cli.running import PROGRAM, Running, clean_environment, valetkey

CONFIGURATION = """
[authorization]
url = "http://127.0.0.1:0"
listen = "127.0.0.1:0"
workers = {workers}

[resource]
url = "http://127.0.0.1:0"
listen = "127.0.0.1:0"
"""
ONE_ALGORITHM = """
[tokens]
signing_algorithms = ["ES256"]
"""

_READY = re.compile(r"ready authorization=(https?://\S+)(?: resource=(https?://\S+))?\n")


@dataclass(frozen=True, slots=True)
class Site:
    """Servers that run: their URLs, "" for one that does not, and their process."""

    authorization: str
    resource: str
    process: subprocess.Popen[str]
    log: Path


def configure(here: Path, *, workers: int = 1, every_algorithm: bool = False) -> Path:
    """Write the configuration into `here`; commands that run there find it.

    Unless every algorithm is wanted, there are no keys that take long to make.
    """
    file = here / "valetkey.toml"
    text = CONFIGURATION.format(workers=workers) + ("" if every_algorithm else ONE_ALGORITHM)
    file.write_text(text, encoding="utf-8")
    return file


def begin(here: Path) -> Path:
    """Write the configuration into `here` and make the databases: copies of some made once."""
    shutil.copytree(_begun(), here, dirs_exist_ok=True)
    return here / "valetkey.toml"


@cache
def _begun() -> Path:
    made = tempfile.TemporaryDirectory(prefix="vk-begun-")
    atexit.register(made.cleanup)
    here = Path(made.name)
    configure(here)
    assert valetkey("database", "migrate", here=here).code == 0
    return here


@contextmanager
def serving(here: Path, start: type[subprocess.Popen[str]] = Running) -> Generator[Site]:
    """The servers of the configuration in `here`, ready; as installed if `start` is a Popen."""
    log = here / "serve.log"
    with (
        log.open("w", encoding="utf-8") as errors,
        start(
            [str(PROGRAM), "serve"],
            cwd=here,
            env=clean_environment(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            match = _READY.fullmatch(line)
            assert match is not None, line + log.read_text(encoding="utf-8")
            yield Site(match[1], match[2] or "", process, log)
        finally:
            if process.poll() is None:
                process.terminate()
            process.wait(60)


def configure_ports(here: Path) -> Path:
    """The same with two ports that were free a moment ago, for commands that call the servers."""
    ports = (free_port(), free_port())
    text = CONFIGURATION.format(workers=1) + ONE_ALGORITHM
    for port in ports:
        text = text.replace("127.0.0.1:0", f"127.0.0.1:{port}", 2)
    file = here / "valetkey.toml"
    file.write_text(text, encoding="utf-8")
    return file
