"""`make reliability`: run every experiment at full count and replace its row of the table."""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from bench.processes import ended_together
from tests.architecture.tree import ROOT
from tests.reliability.experiments import EXPERIMENTS
from tests.reliability.nodes import Node
from tests.reliability.outcome import Outcome
from tests.support import postgres

_PAGE = ROOT / "docs/explanation/reliability.md"
_HEAD = "| experiment | promise | counts | seed | duration | commit | verdict |"
_SEED = 14


def main(arguments: list[str]) -> int:
    """Run the selected experiments. Return 1 if a promise was broken, for the shell."""
    parser = argparse.ArgumentParser(prog="make reliability")
    parser.add_argument("--only", help="the name of one experiment, or the number of a test")
    parser.add_argument("--times", type=int, help="how often, instead of the full count")
    parser.add_argument("--seed", type=int, default=_SEED)
    options = parser.parse_args(arguments)
    broken, commit = 0, _commit()
    Node.as_installed = True
    postgres.begin()
    try:
        for experiment, (_, full) in EXPERIMENTS.items():
            if options.only in {None, experiment.__name__}:
                with tempfile.TemporaryDirectory(prefix="vk-rel-", dir="/tmp") as folder:
                    chance = random.Random(options.seed)
                    began = time.monotonic()
                    outcome = experiment(Path(folder), options.times or full, chance)
                    seconds = round(time.monotonic() - began)
                sys.stdout.write(f"{outcome.name}: {outcome.counts}: {_verdict(outcome)}\n")
                sys.stdout.flush()
                if commit:
                    _write(outcome, f"{options.seed} | {seconds} s | {commit}")
                broken += not outcome.held
    finally:
        postgres.end()
    if not commit:
        sys.stdout.write(_NOT_WRITTEN)
    return 1 if broken else 0


def _write(outcome: Outcome, run: str) -> None:
    """Replace the last row with this name; a row of a broken promise stays beside it."""
    text = _PAGE.read_text(encoding="utf-8")
    before, _, table = text.partition(f"{_HEAD}\n")
    rule, *rows = table.strip().split("\n")
    kept = [row for row in rows if not _is_good(row, outcome.name)]
    when = datetime.now(UTC).date()
    row = (
        f"| {outcome.name} | {outcome.promise} | {outcome.counts} | {run}, {when} "
        f"| {_verdict(outcome)} |"
    )
    _PAGE.write_text(
        "\n".join([f"{before}{_HEAD}", rule, *sorted([*kept, row])]) + "\n", encoding="utf-8"
    )


def _is_good(row: str, name: str) -> bool:
    return row.startswith(f"| {name} |") and row.endswith("| holds |")


def _verdict(outcome: Outcome) -> str:
    return _VERDICTS[outcome.held]


_VERDICTS: Mapping[bool, str] = {True: "holds", False: "broken"}


def _commit() -> str:
    """Return the commit that is tested; "" if it is changed or not in the history of main."""
    if _git("status", "--porcelain", "--", "src", "tests", "bench").stdout:
        return ""
    # A clone without main, such as that of a CI job, is of main itself. A rebase, however, would
    # give a commit outside main another name.
    has_main = _git("rev-parse", "--verify", "main").returncode == 0
    if has_main and _git("merge-base", "--is-ancestor", "HEAD", "main").returncode:
        return ""
    return _git("rev-parse", "--short", "HEAD").stdout.strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=False
    )


_NOT_WRITTEN = (
    "The table is unchanged: it names commits of main, and this is none, or its files changed.\n"
)


if __name__ == "__main__":
    with ended_together():
        sys.exit(main(sys.argv[1:]))
