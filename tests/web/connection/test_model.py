"""Random traffic on our connections, as `python -m tests.web.model` runs it a million times."""

import pytest

from tests.web.model.__main__ import run

CASES = 4_000
BATCH = 500


@pytest.mark.parametrize("first", range(0, CASES, BATCH))
def test_answers_equal_those_of_an_h11_model(first: int) -> None:
    assert run(range(first, first + BATCH)) == BATCH
