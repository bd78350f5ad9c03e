"""`python -m bench.commands`: what the start of a command costs.

Runs typical commands on a small installation in a temporary folder, each several times, and prints
the lowest CPU time (user and system) of its process in milliseconds, with the time of a Python that
does nothing and of one that imports click. Last: the time until `valetkey serve` is ready.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.processes import ended_together

_PROGRAM = str(Path(sys.executable).with_name("valetkey"))
_COMMANDS: Mapping[str, Sequence[str]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "python -c 'import click'": (sys.executable, "-c", "import click"),
    **{
        f"valetkey {words}": (_PROGRAM, *words.split())
        for words in (
            "--help",
            "user --help",
            "group create --help",
            "client create --help",
            "user show ada",
            "group list",
            "group add staff ada",
            "settings show tokens.access_token_lifetime",
            "key list",
            "events --limit 5",
            "config check",
        )
    },
}
_CONFIGURATION = """
[authorization]
url = "http://127.0.0.1:0"
listen = "127.0.0.1:0"
[resource]
url = "http://127.0.0.1:0"
listen = "127.0.0.1:0"
"""
_OBJECTS = """
[[users]]
username = "ada"
email = "ada@example.com"

[[groups]]
name = "staff"
"""
_READY = 60  # seconds


def main() -> None:
    """Begin an installation, run each command, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--times", type=int, default=10, help="runs of each command")
    chosen = parser.parse_args()
    with TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "valetkey.toml").write_text(_CONFIGURATION)
        (here / "apply.toml").write_text(_OBJECTS)
        _cpu((_PROGRAM, "apply", "--yes", "apply.toml"), here)
        for name, words in _COMMANDS.items():
            lowest = min(_cpu(words, here) for _ in range(chosen.times))
            print(f"{name:48} {lowest * 1e3:6.0f} ms of CPU")
        lowest = min(_until_ready(here) for _ in range(max(1, chosen.times // 3)))
        print(f"{'valetkey serve, until ready':48} {lowest * 1e3:6.0f} ms")


def _cpu(words: Sequence[str], here: Path) -> float:
    """Run the command; return its CPU time in seconds."""
    process = subprocess.Popen(
        words, cwd=here, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)}: exit code {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _until_ready(here: Path) -> float:
    """Start both servers and stop them; return the seconds until they were ready."""
    began = time.perf_counter()
    process = subprocess.Popen(
        (_PROGRAM, "serve"),
        cwd=here,
        env={**_environment(), "VALETKEY__SERVING__DRAIN": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        line = process.stdout.readline() if process.stdout else ""
        took = time.perf_counter() - began
    finally:
        process.terminate()
        process.communicate(timeout=_READY)
    if not line.startswith("ready"):
        raise SystemExit("the servers did not start")
    return took


def _environment() -> dict[str, str]:
    """Return the environment, with compiled modules kept: else each run compiles all of them."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


if __name__ == "__main__":
    with ended_together():
        main()
