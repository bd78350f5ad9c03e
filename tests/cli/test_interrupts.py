"""Signals in bursts, as `make` and terminals send them: all ends, and nothing is left behind."""

import signal
import subprocess
import sys
import time
from itertools import cycle, islice
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, sources
from tests.cli.running import PROGRAM, clean_environment
from tests.support.processes import descendants
from tests.support.wait import CEILING, wait_until

_BOTH = (signal.SIGTERM, signal.SIGINT)
_INIT = ("init", "--no-input", "--url", "http://localhost:8461", "--owner-email", "a@b.example")
_SITE = """
[authorization]
url = "http://localhost:0"
listen = "127.0.0.1:0"
workers = 2
[resource]
url = "http://localhost:0"
listen = "127.0.0.1:0"
"""


def stopped(process: subprocess.Popen[str]) -> list[int]:
    """Send twenty signals within 5 ms and wait; return the processes that are left."""
    started = descendants(process.pid)
    for number in islice(cycle(_BOTH), 20):
        process.send_signal(number)
        time.sleep(0.000_2)
    process.wait(CEILING)
    return [child for child in started if Path(f"/proc/{child}").exists()]


def start(here: Path, *command: str) -> subprocess.Popen[str]:
    work, temporary = here / "work", here / "temporary"
    for folder in (work, temporary):
        folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        command,
        cwd=work,
        env={**clean_environment(), "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("seconds", [1.0, 3.0])
@pytest.mark.parametrize("command", [("demo",), ("demo", "--walk"), ("serve",), _INIT])
def test_burst_of_signals_during_a_start_leaves_nothing_behind(
    tmp_path: Path, command: tuple[str, ...], seconds: float
) -> None:
    (tmp_path / "work").mkdir()
    if command == ("serve",):
        (tmp_path / "work/valetkey.toml").write_text(_SITE)
    with start(tmp_path, str(PROGRAM), *command) as process:
        time.sleep(seconds)
        assert not stopped(process)
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()
    assert not list((tmp_path / "temporary").iterdir())
    assert not list((tmp_path / "work").glob("tmp*"))


@pytest.mark.parametrize(("command", "says"), [("demo", "Valetkey is running"), ("serve", "ready")])
def test_burst_of_signals_stops_running_servers_and_leaves_nothing_behind(
    tmp_path: Path, command: str, says: str
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work/valetkey.toml").write_text(_SITE)
    for _ in range(2):
        with start(tmp_path, str(PROGRAM), command) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(says)
            assert len(descendants(process.pid)) >= 4
            assert not stopped(process)
            assert process.returncode == 0
        assert not list((tmp_path / "temporary").iterdir())


_RUN = """
import subprocess, sys, time
from bench.processes import ended_together
with ended_together():
    subprocess.Popen(("sleep", "60"))
    subprocess.Popen((sys.executable, "-c", "import time; time.sleep(60)"))
    print("up", flush=True)
    time.sleep(60)
"""


def test_interrupted_measurement_ends_its_child_processes(tmp_path: Path) -> None:
    with start(tmp_path, sys.executable, "-c", _RUN) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        assert wait_until(lambda: len(descendants(process.pid)) == 2)
        assert not stopped(process)
        assert process.returncode == 130


def test_signal_handlers_are_where_they_are_reviewed() -> None:
    """A handler that takes a lock may wait for the code that it interrupts: for ever."""
    sets = ("signal.signal(", "add_signal_handler(", "set_wakeup_fd(", "sigaction(")
    files = [file for part in ("src/", "bench/", "tests/reliability/") for file in sources(part)]
    paths = {file.path for file in files if any(setter in file.text for setter in sets)}
    assert paths == {
        "src/valetkey/cli/interrupts.py",
        # Called by the event loop between two steps, so it interrupts nothing.
        "src/valetkey/cli/serving/issuers.py",
        "src/valetkey/cli/serving/plan.py",
        "src/valetkey/cli/serving/supervise.py",
        "src/valetkey/web/listen.py",
    }
