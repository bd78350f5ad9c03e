"""What experiments on changes under load have in common."""

from contextlib import suppress

from tests.reliability.load import Load
from tests.reliability.nodes import Node
from tests.reliability.outcome import Outcome
from tests.support.wait import wait_until

_ENOUGH = 40  # requests between two changes


def replaced(node: Node, before: set[int]) -> bool:
    """Whether other workers have taken the place of all that were there `before`."""
    with suppress(OSError):
        now = set(node.workers())
        return len(now) == len(before) and now.isdisjoint(before)
    return False


def wait_for_more(load: Load) -> None:
    """Wait until the load made some requests more."""
    before = load.total
    wait_until(lambda: load.total > before + _ENOUGH, "nothing is answered any more")


def no_failure(name: str, done: str, load: Load) -> Outcome:
    """Judge a change under load during which every request is answered with a token."""
    counts = f"{done}; {load.total} requests, {load.failed} failed {_failures(load)}"
    return Outcome(name, "no failed request", counts.rstrip(), not load.failed)


def _failures(load: Load) -> str:
    failures = {name: count for name, count in load.answers.items() if name != "200"}
    return f"({failures})" if failures else ""
