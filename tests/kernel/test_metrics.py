"""How metrics are counted, beside the scrape of a whole installation in tests/cli/serving."""

from collections.abc import Iterator
from threading import Thread

import pytest

from valetkey.kernel import metrics
from valetkey.kernel.metrics import (
    CATALOGUE,
    HTTP_SECONDS,
    MOST_SERIES,
    OTHER,
    Counter,
    Histogram,
    RequestSeconds,
    outcome_of,
    snapshot,
)


@pytest.fixture(autouse=True)
def _catalogue_of_before() -> Iterator[None]:
    before = set(CATALOGUE)
    yield
    for name in set(CATALOGUE) - before:
        del metrics._catalogue[name]


def test_series_of_one_metric_are_bounded() -> None:
    counter = Counter("test_bounded", "For a test.", "label")
    for number in range(MOST_SERIES + 10):
        counter.add(number)
    counter.add(0)
    samples = dict(counter.samples())
    assert len(samples) == MOST_SERIES + 1
    assert samples[OTHER,] == (10,)
    assert samples["0",] == (2,)


def test_value_at_the_bound_of_a_bucket_is_counted_in_it() -> None:
    histogram = Histogram("test_buckets", "For a test.", bounds=(1, 2))
    for value in (0.5, 1, 1.5, 2, 3):
        histogram.observe(value)
    assert list(histogram.samples()) == [((), [2, 2, 1, 8])]


def test_request_is_counted_by_status_and_timed_by_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    # Servers of other tests in this process may have used up the number of series.
    monkeypatch.setattr(HTTP_SECONDS, "_by_issuer", {})
    for status in (200, 200, 404):
        HTTP_SECONDS.observe(0.003, "/test/route", "GET", status)
    series = snapshot()
    requests = {labels: n for labels, n in series["http_requests"] if labels[0] == "/test/route"}
    assert requests == {("/test/route", "GET", "200"): (2,), ("/test/route", "GET", "404"): (1,)}
    times = {
        outcome: sum(counts[:-1])
        for (route, outcome), counts in series["http_request_duration_seconds"]
        if route == "/test/route"
    }
    assert times == {"ok": 2, "refused": 1}


def test_series_beyond_the_maximum_are_counted_without_an_outcome() -> None:
    durations = RequestSeconds("test_seconds", "For a test.", "route", "outcome", bounds=(1,))
    for number in range(MOST_SERIES + 1):
        durations.observe(0.5, f"/{number}", "GET", 302)
    assert dict(durations.samples())[OTHER, OTHER] == [1, 0, 0.5]


def test_outcome_of_a_response_follows_from_its_status() -> None:
    outcomes = [outcome_of(status) for status in (200, 304, 404, 500, 503, 504)]
    assert outcomes == ["ok", "ok", "refused", "failed", "unavailable", "failed"]


def test_concurrent_threads_lose_no_count() -> None:
    counter = Counter("test_threads", "For a test.")

    def count() -> None:
        for _ in range(20_000):
            counter.add()

    threads = [Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(counter.samples()) == [((), (80_000,))]


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="worker_up"):
        Counter("worker_up", "For a test.")
    assert "worker_up" in CATALOGUE
