"""Experiments that are tests already: the same faults, again and again."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.reliability.outcome import Outcome

_COUNT = re.compile(r"(\d+) (passed|failed|error)")
_PROCESSES = "tests/stories/processes"


@dataclass(frozen=True)
class Tests:
    """Tests that run `times` rounds; the promise holds if none ever fails."""

    name: str
    promise: str
    tests: Sequence[str]
    more: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def __name__(self) -> str:
        """The name after `--only`: the number of the experiment."""
        return self.name.partition(" ")[0].rstrip(",")

    def __hash__(self) -> int:
        """By its name, which is unique."""
        return hash(self.name)

    def __call__(self, folder: Path, times: int, chance: random.Random) -> Outcome:
        """Run the rounds, each in a process of its own."""
        passed = failed = 0
        for number in range(times):
            base = ("--basetemp", str(folder / str(number)))
            done = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "--tb=short", *base, *self.tests],
                cwd=ROOT,
                env={**os.environ, **self.more},
                capture_output=True,
                text=True,
                check=False,
            )
            results = {word: int(count) for count, word in _COUNT.findall(done.stdout[-400:])}
            passed += results.get("passed", 0)
            failed += results.get("failed", 0) + results.get("error", 0)
            if done.returncode:
                sys.stdout.write(done.stdout[-4_000:])
        variables = ", ".join(f"{name}={value}" for name, value in self.more.items())
        counts = (
            f"{times} rounds{f' with {variables}' if variables else ''}: "
            f"{passed} tests, {failed} failed"
        )
        return Outcome(self.name, self.promise, counts, passed > 0 and not failed)


DERIVED: Mapping[Tests, int] = {
    Tests(
        "E00 planted leaks",
        "the scan for secrets finds each leak that is planted",
        ["tests/stories/test_canary_teeth.py"],
    ): 5,
    Tests(
        "E02, E03 races",
        "what may happen once happens once; what ends wins over what is issued",
        [f"{_PROCESSES}/test_races.py", f"{_PROCESSES}/test_once.py"],
        {"VALETKEY_RACES": "10"},
    ): 10,
    Tests(
        "E04, E07 kill -9 of everything",
        "nothing that was answered is lost, nothing that was spent works again",
        [f"{_PROCESSES}/test_kill.py"],
    ): 20,
    Tests(
        "E10, E11 overload and slow clients",
        "excess gets 503 at once, slow clients are cut off and others are not affected",
        [
            "tests/web/connection/test_overload.py",
            "tests/web/test_protocol.py::test_a_slow_client_is_cut_off",
            "tests/web/test_protocol.py::test_slow_clients_do_not_affect_other_clients",
            "tests/web/test_listen.py::test_slow_clients_are_cut_off_inside_tls_too",
        ],
    ): 10,
    Tests(
        "E18 full disk",
        "503 and not ready until writes succeed again; nothing is corrupt",
        ["tests/cli/commands/test_full_disk.py"],
    ): 10,
    Tests(
        "E20 secrets at rest and in logs",
        "no canary in logs, databases, backups or answers",
        ["tests/stories/test_canary.py"],
    ): 5,
    Tests(
        "E24 aborted transactions",
        "run again, each written once",
        ["tests/database/test_deadlocks.py", "tests/database/test_postgres_groups.py"],
    ): 20,
    Tests(
        "E25, E27 backup and restore",
        "a backup under way serves again, and what was revoked since stays revoked",
        ["tests/cli/commands/test_restore.py", "tests/cli/commands/test_database.py"],
    ): 10,
    Tests(
        "E30 kill -9 at each statement of the migrations",
        "all or nothing, from the oldest schema to today's",
        ["tests/database/test_migrate_killed.py"],
        {"VALETKEY_EVERY_STEP": "1"},
    ): 1,
    Tests(
        "E31 rotation of signing keys",
        "no client notices",
        [f"{_PROCESSES}/test_rotation.py"],
        {"VALETKEY_ROTATIONS": "25"},
    ): 1,
    Tests(
        "E34 other servers away",
        "mail, apps and their keys: tried again later, other requests do not wait",
        [
            "tests/authorization/background/test_post.py",
            "tests/authorization/background/test_deliver.py",
            "tests/fetch/test_outbound.py",
            f"{_PROCESSES}/test_outage.py",
        ],
    ): 10,
}
"""Each of them and how many rounds `make reliability` runs; among the tests they are already."""
