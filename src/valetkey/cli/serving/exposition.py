"""Render the metrics of all workers as the response to a scrape."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, cast

from valetkey.kernel.metrics import (
    CATALOGUE,
    EXEMPLARS,
    HTTP_SECONDS,
    PREFIX,
    Histogram,
    Metric,
    Sample,
    Snapshot,
)
from valetkey.kernel.runtime import import_lazily

if TYPE_CHECKING:
    from prometheus_client import exposition as prometheus
    from prometheus_client import metrics_core as families
    from prometheus_client import registry as registries
    from prometheus_client import samples
else:
    # Loaded by the first scrape: most servers are never scraped.
    prometheus = import_lazily("prometheus_client.exposition")
    families = import_lazily("prometheus_client.metrics_core")
    registries = import_lazily("prometheus_client.registry")
    samples = import_lazily("prometheus_client.samples")

Worker = tuple[str, int]
"""The name of a server and the number of its worker."""

WorkerMetrics = Mapping[Worker, Snapshot | None]
"""The metrics of each worker; None for a worker that did not respond in time."""

_OPENMETRICS = "application/openmetrics-text;version=1.0.0"
_OF_SERVER = ("server",)
_OF_WORKER = ("server", "worker")


def expose(found: WorkerMetrics, accept: str) -> tuple[bytes, str]:
    """Return the metrics and their media type: OpenMetrics or Prometheus text, by `accept`.

    Each series is labelled with its server and worker, so that the restart of a worker shows as a
    counter reset; `sum without (worker)` adds the workers up. Metrics read from a shared database
    are reported once per server. Other parameters of `accept` are ignored.
    """
    # Only one of two constants: prometheus-client raises TypeError for a version that is no number,
    # and copies the version of the request into the response header.
    chosen = _OPENMETRICS if _OPENMETRICS.partition(";")[0] in accept.lower() else ""
    encode, media_type = prometheus.choose_encoder(chosen)
    registry = registries.CollectorRegistry(auto_describe=False)
    registry.register(cast("registries.Collector", _Collected(found)))
    return encode(registry), media_type


class _Collected:
    """A `Collector` of prometheus-client, which defines no protocol for it."""

    def __init__(self, found: WorkerMetrics) -> None:
        self._found = found

    def collect(self) -> Iterator["families.Metric"]:
        """Yield every metric that has a sample."""
        for metric in CATALOGUE.values():
            family = _family(metric, self._found)
            if family.samples:
                yield family


def _family(metric: Metric, found: WorkerMetrics) -> "families.Metric":
    name, labels = PREFIX + metric.name, _OF_SERVER if metric.shared else _OF_WORKER
    told = _samples(metric, found)
    if isinstance(metric, Histogram):
        histogram = families.HistogramMetricFamily(
            name, metric.help, labels=[*labels, *metric.labels]
        )
        ends = (*map(str, map(float, metric.bounds)), "+Inf")
        none: Mapping[int, samples.Exemplar] = {}
        shown = _exemplars(found) if metric is HTTP_SECONDS else None
        for values, (*counts, total) in told:
            marks = none if shown is None else shown.get(tuple(values), none)
            buckets = [
                (end, count, marks[n]) if n in marks else (end, count)
                for n, (end, count) in enumerate(zip(ends, accumulate(counts), strict=True))
            ]
            histogram.add_metric(values, buckets, total)
        return histogram
    kind = families.CounterMetricFamily if metric.kind == "counter" else families.GaugeMetricFamily
    family = kind(name, metric.help, labels=[*labels, *metric.labels])
    for values, (value,) in told:
        family.add_metric(values, value)
    return family


def _exemplars(found: WorkerMetrics) -> Mapping[tuple[str, ...], Mapping[int, "samples.Exemplar"]]:
    """Return the exemplars of request durations by labels and number of the bucket."""
    told: dict[tuple[str, ...], dict[int, samples.Exemplar]] = {}
    for (server, worker), said in found.items():
        for (route, outcome, bucket, trace_id), (value, at) in (said or {}).get(EXEMPLARS, ()):
            exemplar = samples.Exemplar({"trace_id": trace_id}, value, at)
            labels = (server, str(worker), route, outcome)
            told.setdefault(labels, {})[int(bucket)] = exemplar
    return told


def _samples(metric: Metric, found: WorkerMetrics) -> Iterator[Sample]:
    told: set[tuple[str, ...]] = set()
    for (server, worker), said in found.items():
        if metric.name == "worker_up":
            yield (server, str(worker)), (float(said is not None),)
            continue
        counted: Sequence[Sample] = said.get(metric.name, ()) if said is not None else ()
        for values, numbers in counted:
            whole = (server, *values) if metric.shared else (server, str(worker), *values)
            if whole not in told:
                told.add(whole)
                yield whole, numbers
