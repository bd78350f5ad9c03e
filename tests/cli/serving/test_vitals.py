"""A worker's log tells of clock steps and of missing descriptors."""

import asyncio
import io
import json
from collections.abc import Iterator
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit, setrlimit

import pytest

from tests.support.harness import NOON
from tests.support.wait import until
from valetkey.cli.serving import vitals
from valetkey.cli.serving.vitals import CertificateMonitor, ProcessMonitor, open_descriptors
from valetkey.fetch.certificate import self_signed
from valetkey.kernel import metrics
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.runtime import SYSTEM
from valetkey.web import log


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    monkeypatch.setattr(vitals, "_LOOK_EVERY", 0.001)
    log._seldom.clear()
    stream = io.StringIO()
    log.set_up("info", "json", stream)
    yield stream
    log.set_up("warning", "json")


def test_clock_step_and_few_descriptors_are_logged(told: io.StringIO) -> None:
    ahead = 0

    async def story() -> None:
        nonlocal ahead
        watch = ProcessMonitor(lambda: Instant(SYSTEM.now() + ahead), lambda: 1_000_000_000)
        task = asyncio.create_task(watch.watch())
        await until(lambda: "descriptors.low" in told.getvalue())
        assert "clock.stepped" not in told.getvalue()
        ahead = -3_600
        await until(lambda: "clock.stepped" in told.getvalue())
        task.cancel()

    asyncio.run(story())
    low, step = map(json.loads, told.getvalue().splitlines())
    assert (low["level"], low["open"]) == ("error", 1_000_000_000)
    assert step["level"] == "warning"
    assert abs(step["seconds"] + 3_600) <= 1
    counted = {labels: value for labels, (value,) in metrics.CLOCK_STEPS.samples()}
    assert counted[("back",)] == 1
    assert ("forward",) in counted


def test_open_descriptors_are_counted() -> None:
    assert 0 < open_descriptors() < 10_000
    few, (usual, most) = 3, getrlimit(RLIMIT_NOFILE)
    setrlimit(RLIMIT_NOFILE, (few, most))
    try:
        # Without one to count them with.
        assert open_descriptors() == few
    finally:
        setrlimit(RLIMIT_NOFILE, (usual, most))


def test_certificate_is_measured_and_its_end_is_logged(
    told: io.StringIO, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vitals, "WARN_EVERY", 0.001)
    file = tmp_path / "tls.pem"
    file.write_text(self_signed("a.example", NOON, days=30))
    at = NOON

    async def story() -> None:
        nonlocal at
        monitor = CertificateMonitor(lambda: at)
        monitor.served(file)
        assert _certificate() == [days(30)]
        task = asyncio.create_task(monitor.watch())
        await asyncio.sleep(0.01)
        assert told.getvalue() == ""
        at = Instant(NOON + days(20))
        await until(lambda: '"level":"warning"' in told.getvalue())
        at = Instant(NOON + days(31))
        await until(lambda: '"level":"error"' in told.getvalue())
        task.cancel()

    asyncio.run(story())
    lines = [json.loads(line) for line in told.getvalue().splitlines()]
    assert {(line["event"], line["hours_left"]) for line in lines} == {
        ("certificate.expiring", 240),
        ("certificate.expiring", -24),
    }
    assert _certificate() == [-days(1)]


def _certificate() -> list[float]:
    return [value for _, (value,) in metrics.CERTIFICATE.samples()]
