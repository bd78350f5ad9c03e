"""What is planned follows from what was measured, and the page says it."""

import pytest

from bench import plan
from bench.growth.scale import Visit


def test_half_of_each_core_is_left_free() -> None:
    assert plan.cores(1_000, 1_000) == 2
    assert plan.cores(10_000, 500) == 10
    assert plan.cores(1, 1) == 1


def test_database_share_of_the_cost_is_the_measured_share() -> None:
    seen = Visit(rate=100.0, own=900.0, database=300.0, load=50.0, commits=0.5, log=700.0)
    cost = plan.cost(2_000.0, 1_000.0, seen)
    assert (cost.alone, cost.own, cost.database) == (500.0, 750.0, 250.0)
    assert (cost.commits, cost.log) == (0.5, 700.0)


def test_need_includes_two_nodes_a_standby_and_their_price() -> None:
    cost = plan.Cost(alone=100.0, own=300.0, database=100.0, commits=0.1, log=2_000.0)
    chosen = plan.Chosen(node_cores=4, replicas=1, days=10, core_hour=0.1, gb_month=0.5)
    need = plan.reckon(10_000, cost, 500.0, 5_000, chosen)
    assert (need.alone, need.nodes, need.node_cores, need.database) == (2, 2, 3, 2)
    assert (need.log, need.stored, need.kept) == (20e6, 432.0, 4_320.0)
    # Six cores of nodes, two of PostgreSQL and two of its standby; the rows twice.
    assert need.compute == pytest.approx(10 * 0.1 * 730)
    assert need.disks == pytest.approx(2 * 4_320 * 0.5)
    assert not need.is_measured
    few = plan.reckon(10, cost, 500.0, 5_000, chosen)
    assert (few.nodes, few.node_cores, few.database, few.is_measured) == (2, 1, 1, True)
    many = plan.reckon(100_000, cost, 500.0, 5_000, chosen)
    assert (many.nodes, many.node_cores) == (15, 4)


def test_plan_pages_match_the_committed_results() -> None:
    stale = [path.name for path, text in plan.written().items() if path.read_text() != text]
    assert not stale, "run `python -m bench.plan --write`"
