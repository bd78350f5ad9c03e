"""E00: the tests of this folder's promises fail on servers that break them, each in one way."""

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.reliability.outcome import Outcome

_ONCE = "tests/stories/processes/test_once.py"
_KILLED = "tests/stories/processes/test_kill.py::test_crash_loses_no_answered_request"
_LEAKS = "tests/stories/test_canary.py"
_LATE = "tests/reliability/test_experiments.py"
_SQLITE = ("-k", "sqlite and not two")


@dataclass(frozen=True)
class Broken:
    """One change of the source, file by file: the text that is replaced, and by what."""

    name: str
    changes: Mapping[str, tuple[str, str]]
    test: Sequence[str]


_CURRENT = "is_current = same(fingerprint, grant.refresh_print)"
_COMMIT = '                self._raw.execute("COMMIT")'
_READ = "            asked = self.client_auth.read(request)\n"
_LEAK = """\
            from valetkey.web import log
            log.info("seen", form=request.body.decode())
"""

SERVERS = (
    Broken(
        "a code redeemed twice",
        {
            "authorization/storage/tokens.py": (
                "UPDATE vouchers SET redeemed_at = :now",
                "UPDATE vouchers SET expires_at = expires_at",
            )
        },
        (f"{_ONCE}::test_a_code_is_redeemed_once_and_its_replay_ends_the_grant", *_SQLITE),
    ),
    Broken(
        "a forked refresh token",
        {
            "authorization/grant_types/refresh_token.py": (
                _CURRENT,
                f"{_CURRENT} or _was_previous(found, fingerprint)",
            ),
            "authorization/storage/grants.py": (
                " AND refresh_print = :presented",
                " AND :presented = :presented",
            ),
        },
        (f"{_ONCE}::test_a_refresh_token_has_one_successor", *_SQLITE),
    ),
    Broken(
        "an answer before its commit",
        {
            "database/sqlite.py": (
                _COMMIT,
                f"                tell(batch)\n                time.sleep(0.1)\n{_COMMIT}",
            )
        },
        (f"{_KILLED}[sqlite]",),
    ),
    Broken(
        "a revocation that is not followed",
        {
            "sdk/upstream/revocations.py": (
                "        if caller.token_id in self._tokens",
                "        return False\n        if caller.token_id in self._tokens",
            )
        },
        (f"{_LATE}::test_promise_holds[revocation_everywhere]",),
    ),
    Broken(
        "a secret in the log",
        {"authorization/endpoints/client/token.py": (_READ, _LEAK + _READ)},
        (_LEAKS, *_SQLITE),
    ),
)


def broken_servers(
    folder: Path, times: int, chance: random.Random, servers: Sequence[Broken] = SERVERS
) -> Outcome:
    """Run each test on the server as it is, and on the one that is broken where the test looks."""
    detected: list[str] = []
    alarms: list[str] = []
    for number in range(times):
        for server in servers:
            here = folder / f"{number}-{server.name.replace(' ', '-')}"
            if _fails(here / "good", server.test, {}):
                alarms.append(server.name)
            if _fails(here / "broken", server.test, server.changes):
                detected.append(server.name)
    all_of_them = times * len(servers)
    missed = sorted({server.name for server in servers if detected.count(server.name) < times})
    counts = (
        f"{len(detected)} of {all_of_them} broken servers detected"
        f"{f' (not: {missed})' if missed else ''}, {len(alarms)} false alarms in {all_of_them} "
        f"runs on the good one{f' ({sorted(set(alarms))})' if alarms else ''}"
    )
    promise = f"the tests find {', '.join(server.name for server in servers)}; none fails otherwise"
    return Outcome("E00 broken servers", promise, counts, not missed and not alarms)


def _fails(here: Path, test: Sequence[str], changes: Mapping[str, tuple[str, str]]) -> bool:
    """Whether the test fails on a copy of the source with these changes."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src/valetkey", here / "src/valetkey", ignore=ignored)
    for name, (old, new) in changes.items():
        file = here / "src/valetkey" / name
        text = file.read_text()
        assert old in text, f"{name} has changed: {old}"
        file.write_text(text.replace(old, new))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--basetemp", str(here / "run"), *test],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(here / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    # Anything else than passed or failed is a mistake in this file, such as a test that moved.
    assert done.returncode in {0, 1}, done.stdout[-4_000:] + done.stderr[-4_000:]
    return bool(done.returncode)
