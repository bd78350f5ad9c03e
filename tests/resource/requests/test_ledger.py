"""What workers count together: every request once, whoever answered it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest

from valetkey.kernel.moment import Instant
from valetkey.resource.requests.allowance import Allowances, SharedCounters

_COUNT = """
import sys
from pathlib import Path
from valetkey.resource.requests.allowance import SharedCounters

ledger = SharedCounters(Path(sys.argv[1]))
for _ in range(2_000):
    ledger.change("ada", lambda number: number + 1)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    SharedCounters.begin(tmp_path / "ledger")
    return tmp_path / "ledger"


def test_two_workers_share_one_rate_limit(file: Path) -> None:
    ledgers = SharedCounters(file), SharedCounters(file)
    workers = [Allowances(7, ledger) for ledger in ledgers]
    now = Instant(1_800_000_000)
    left = [workers[turn % 2].take("ada", now).remaining for turn in range(7)]
    assert left == [6, 5, 4, 3, 2, 1, 0]
    assert all(worker.take("ada", now).wait == 9 for worker in workers)
    assert workers[1].take("bob", now).remaining == 6
    assert workers[0].take("ada", Instant(now + 9)).wait == 0
    assert workers[1].take("ada", Instant(now + 9)).wait > 0
    for ledger in ledgers:
        ledger.close()


def test_concurrent_processes_lose_no_count(file: Path) -> None:
    def count(_: int) -> int:
        return subprocess.run([sys.executable, "-c", _COUNT, str(file)], check=True).returncode

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(count, range(3)))
    ledger = SharedCounters(file)
    assert ledger.change("ada", lambda number: number) == 6_000
    ledger.close()


def test_new_callers_replace_those_with_the_smallest_number(file: Path) -> None:
    ledger = SharedCounters(file)
    for number in range(1, 40_000):
        ledger.change(f"caller {number}", partial(max, number))
    # As many as find room are remembered, and those are the last.
    kept = [n for n in range(1, 40_000) if ledger.change(f"caller {n}", lambda value: value) == n]
    assert len(kept) < 16_385
    assert min(kept[-1_000:]) > 30_000
    ledger.close()


def test_ledger_is_created_once_and_follows_no_link(tmp_path: Path, file: Path) -> None:
    with pytest.raises(FileExistsError):
        SharedCounters.begin(file)
    link = tmp_path / "link"
    link.symlink_to(file)
    with pytest.raises(OSError, match="symbolic"):
        SharedCounters(link)
