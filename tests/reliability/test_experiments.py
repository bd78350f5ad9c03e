"""Each experiment of `make reliability`, a few times."""

import random
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.reliability.broken_servers import SERVERS, broken_servers
from tests.reliability.derived import DERIVED
from tests.reliability.experiments import EXPERIMENTS, Experiment

_HERE = [experiment for experiment, (times, _) in EXPERIMENTS.items() if times]


@pytest.mark.parametrize("experiment", _HERE, ids=lambda experiment: experiment.__name__)
def test_promise_holds(experiment: Experiment, tmp_path: Path) -> None:
    outcome = experiment(tmp_path, EXPERIMENTS[experiment][0], random.Random(1))
    assert outcome.held, outcome


def test_broken_server_is_detected(tmp_path: Path) -> None:
    (forked,) = (server for server in SERVERS if server.name == "a forked refresh token")
    outcome = broken_servers(tmp_path, 1, random.Random(1), [forked])
    assert outcome.held, outcome


def test_published_table_has_the_experiments_that_are_tests() -> None:
    page = (ROOT / "docs/explanation/reliability.md").read_text()
    rows = page.partition("## Results")[2]
    assert not [experiment.name for experiment in DERIVED if f"| {experiment.name} |" not in rows]
