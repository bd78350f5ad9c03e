"""`make reliability`: every experiment at full count; the table is written anew, row by row."""

import argparse
import random
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.reliability.experiments import EXPERIMENTS
from tests.reliability.outcome import Outcome
from tests.support import postgres

_PAGE = ROOT / "docs/explanation/reliability.md"
_HEAD = "| experiment | promise | counts | seed | commit | verdict |"
_SEED = 14


def main(arguments: list[str]) -> int:
    """Run what was asked for; the number is for the shell: 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="make reliability")
    parser.add_argument("--only", help="the name of one experiment")
    parser.add_argument("--times", type=int, help="how often, instead of the full count")
    parser.add_argument("--seed", type=int, default=_SEED)
    asked = parser.parse_args(arguments)
    broken = 0
    postgres.begin()
    try:
        for experiment, (_, full) in EXPERIMENTS.items():
            if asked.only in {None, experiment.__name__}:
                with tempfile.TemporaryDirectory(prefix="vk-rel-", dir="/tmp") as folder:
                    chance = random.Random(asked.seed)
                    outcome = experiment(Path(folder), asked.times or full, chance)
                sys.stdout.write(f"{outcome.name}: {outcome.counts}: {_verdict(outcome)}\n")
                sys.stdout.flush()
                _write(outcome, asked.seed)
                broken += not outcome.held
    finally:
        postgres.end()
    return 1 if broken else 0


def _write(outcome: Outcome, seed: int) -> None:
    """Put the row in the place of the last one of its name; one that failed stays beside it."""
    text = _PAGE.read_text(encoding="utf-8")
    before, _, table = text.partition(f"{_HEAD}\n")
    rule, *rows = table.strip().split("\n")
    kept = [row for row in rows if not _is_good(row, outcome.name)]
    when = datetime.now(UTC).date()
    row = (
        f"| {outcome.name} | {outcome.promise} | {outcome.counts} | {seed} | {_commit()}, {when} "
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
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
