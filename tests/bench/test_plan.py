"""What is planned follows from what was measured, and the page says it."""

from bench.growth.scale import Visit
from bench.results import plan


def test_half_of_each_core_is_left_free() -> None:
    assert plan.cores(1_000, 1_000) == 2
    assert plan.cores(10_000, 500) == 10
    assert plan.cores(1, 1) == 1


def test_the_database_has_the_part_of_the_cost_that_it_was_seen_to_have() -> None:
    seen = Visit(rate=100.0, own=900.0, database=300.0, load=50.0, commits=0.5, log=700.0)
    cost = plan.cost(2_000.0, 1_000.0, seen)
    assert (cost.alone, cost.own, cost.database) == (500.0, 750.0, 250.0)
    assert (cost.commits, cost.log) == (0.5, 700.0)


def test_the_page_says_what_the_committed_results_say() -> None:
    stale = [path.name for path, text in plan.written().items() if path.read_text() != text]
    assert not stale, "run `python -m bench.results.plan`"
