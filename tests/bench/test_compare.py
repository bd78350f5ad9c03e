"""What a run measured is kept, whatever fails or ends it."""

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from itertools import repeat

import pytest

from bench.load import Finished, Worker, measure
from bench.peers.ceiling import ceiling
from bench.peers.compare import Figures, compare
from bench.peers.own_peer import ON_SQLITE
from bench.peers.work import INTROSPECTION_ONCE, JWT, KEYS, ONCE, WORKLOADS, Once
from bench.ports import free_port
from bench.results import page, quick, targets
from bench.results.page import Results
from bench.workloads import Place
from valetkey.web.listen import run


def test_row_that_fails_is_left_out_with_its_reason() -> None:
    figures = Figures()
    with ceiling() as up:
        gone = replace(up, name=ON_SQLITE, place=Place("127.0.0.1", free_port()))
        run(compare([gone, up], 2, 0.05, figures, only=(JWT, KEYS)))
    assert [len(figures.rates[work][up.name]) for work in (JWT, KEYS)] == [2, 2]
    assert ON_SQLITE not in figures.rates[JWT]
    assert figures.failed
    assert any(line.startswith(f"Left out: {ON_SQLITE}, {JWT}") for line in figures.missing)


def test_measurements_before_an_early_stop_are_kept() -> None:
    figures, many = Figures(), (JWT, *repeat(KEYS, 99))
    with ceiling() as up:
        run(_stopped_early(compare([up], 1, 0.05, figures, only=many)))
    assert figures.median(JWT, up.name)
    assert JWT in page.table(Results("here", "", 1, 0.05, figures))
    assert targets.table(figures)
    assert not quick.shares(figures)


async def _stopped_early(work: Coroutine[object, object, None]) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(work, 8)


class _Asked(Worker):
    def __init__(self) -> None:
        self.times = 0

    async def step(self) -> None:
        await asyncio.sleep(0)
        self.times += 1


def test_once_workload_uses_each_token_once() -> None:
    asking = [_Asked() for _ in range(5)]
    worker = Once(iter(asking))
    done = asyncio.run(measure([worker], 5.0))
    assert done.operations == 5
    assert done.seconds < 5
    assert [asker.times for asker in asking] == [1] * 5
    with pytest.raises(Finished):
        asyncio.run(worker.step())


def test_table_includes_workloads_that_use_each_token_once() -> None:
    assert set(ONCE) <= set(WORKLOADS)
    results = page.read()
    results.figures.rates[INTROSPECTION_ONCE] = {ON_SQLITE: [10.0], targets.NODE: [20.0]}
    assert INTROSPECTION_ONCE in page.table(results)
