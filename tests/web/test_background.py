"""Background jobs that fail: they run again, and the log names each cause once a minute."""

import asyncio
import io
import json
from collections.abc import Iterator

import pytest

from tests.support.wait import CEILING
from valetkey.kernel import metrics
from valetkey.web import log, offload


class _Gone(Exception):
    """Stands for an unavailable database."""


@pytest.fixture(autouse=True)
def _fresh_log(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(offload, "_RESTART", 0.0)
    log._seldom.clear()
    yield
    log.set_up("warning", "json")


def _told_of(failures: list[Exception]) -> list[dict[str, object]]:
    """Return what is logged while a job fails with each of these and then returns."""
    left = list(failures)

    async def sweep() -> None:
        if left:
            raise left.pop(0)

    async def main() -> None:
        async with asyncio.timeout(CEILING):
            await asyncio.gather(*offload.start_background((sweep,), (_Gone,)))

    stream = io.StringIO()
    log.set_up("info", "json", stream)
    asyncio.run(main())
    assert not left
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_unexpected_failure_is_logged_once_a_minute_with_type_and_place() -> None:
    (line,) = _told_of([ValueError("of user ada") for _ in range(5)])
    assert (line["event"], line["level"]) == ("background.failed", "error")
    assert str(line["cause"]).endswith("sweep: ValueError")
    assert "test_background.py" in str(line["where"])
    assert "ada" not in json.dumps(line)


def test_each_cause_is_logged_by_itself_and_every_failure_counted() -> None:
    def failures() -> float:
        return sum(value for _, (value,) in metrics.JOB_FAILURES.samples())

    before = failures()
    lines = _told_of([ValueError(), KeyError(), ValueError(), _Gone("disk"), _Gone("disk")])
    assert [str(line["cause"]).partition("sweep: ")[2] for line in lines] == [
        "ValueError",
        "KeyError",
        "_Gone: disk",
    ]
    assert failures() - before == 5
