"""Metrics over HTTP: any worker answers a scrape with the metrics of all.

The listener is shared by all workers of both servers, so that a worker that hangs or restarts does
not make the metrics unavailable. Each worker reports its metrics on a Unix socket in the
supervisor's directory. Both run on threads of their own: a scrape is answered even while the event
loop is stuck or the database is unavailable.
"""

import contextlib
import os
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from platform import python_version
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, cast

import msgspec

from valetkey.cli.serving.plan import Scraping
from valetkey.cli.serving.vitals import open_descriptors
from valetkey.config.agreement import is_loopback
from valetkey.kernel import metrics
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
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM, import_lazily
from valetkey.kernel.secret import same
from valetkey.web import log

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

WorkerMetrics = Mapping[Worker, Mapping[str, Snapshot] | None]
"""The metrics of each worker, by issuer ("" for the worker itself); None for a worker that did not
respond in time."""

_OPENMETRICS = "application/openmetrics-text;version=1.0.0"
_OF_SERVER = ("server",)
_OF_WORKER = ("server", "worker")


def expose(worker_metrics: WorkerMetrics, accept: str) -> tuple[bytes, str]:
    """Return the metrics and their media type: OpenMetrics or Prometheus text, by `accept`.

    Each series is labelled with its server and worker, and where a worker serves several issuers
    with its issuer, empty for the worker itself, so that the restart of a worker shows as a
    counter reset; `sum without (worker)` adds the workers up. Metrics read from a shared database
    are reported once per server. Other parameters of `accept` are ignored.
    """
    # Only one of two constants: prometheus-client raises TypeError for a version that is no number,
    # and copies the version of the request into the response header.
    chosen = _OPENMETRICS if _OPENMETRICS.partition(";")[0] in accept.lower() else ""
    encode, media_type = prometheus.choose_encoder(chosen)
    registry = registries.CollectorRegistry(auto_describe=False)
    registry.register(cast("registries.Collector", _Collected(worker_metrics)))
    return encode(registry), media_type


class _Collected:
    """A `Collector` of prometheus-client, which defines no protocol for it."""

    def __init__(self, worker_metrics: WorkerMetrics) -> None:
        self._found = worker_metrics

    def collect(self) -> Iterator["families.Metric"]:
        """Yield every metric that has a sample."""
        for metric in CATALOGUE.values():
            family = _family(metric, self._found)
            if family.samples:
                yield family


def _family(metric: Metric, worker_metrics: WorkerMetrics) -> "families.Metric":
    name, labels = PREFIX + metric.name, _OF_SERVER if metric.shared else _OF_WORKER
    if _has_issuers(worker_metrics):
        labels = (*labels, "issuer")
    lines = _samples(metric, worker_metrics)
    if isinstance(metric, Histogram):
        histogram = families.HistogramMetricFamily(
            name, metric.help, labels=[*labels, *metric.labels]
        )
        ends = (*map(str, map(float, metric.bounds)), "+Inf")
        none: Mapping[int, samples.Exemplar] = {}
        shown = _exemplars(worker_metrics) if metric is HTTP_SECONDS else None
        for values, (*counts, total) in lines:
            marks = none if shown is None else shown.get(tuple(values), none)
            buckets = [
                (end, count, marks[n]) if n in marks else (end, count)
                for n, (end, count) in enumerate(zip(ends, accumulate(counts), strict=True))
            ]
            histogram.add_metric(values, buckets, total)
        return histogram
    kind = families.CounterMetricFamily if metric.kind == "counter" else families.GaugeMetricFamily
    family = kind(name, metric.help, labels=[*labels, *metric.labels])
    for values, (value,) in lines:
        family.add_metric(values, value)
    return family


def _exemplars(
    worker_metrics: WorkerMetrics,
) -> Mapping[tuple[str, ...], Mapping[int, "samples.Exemplar"]]:
    """Return the exemplars of request durations by labels and number of the bucket."""
    exemplars: dict[tuple[str, ...], dict[int, samples.Exemplar]] = {}
    for owner, sent in _places(worker_metrics):
        for (route, outcome, bucket, trace_id), (value, at) in sent.get(EXEMPLARS, ()):
            exemplar = samples.Exemplar({"trace_id": trace_id}, value, at)
            exemplars.setdefault((*owner, route, outcome), {})[int(bucket)] = exemplar
    return exemplars


def _samples(metric: Metric, worker_metrics: WorkerMetrics) -> Iterator[Sample]:
    if metric.name == "worker_up":
        itself = ("",) if _has_issuers(worker_metrics) else ()
        for (server, number), by_issuer in worker_metrics.items():
            yield (server, str(number), *itself), (float(by_issuer is not None),)
        return
    labels: set[tuple[str, ...]] = set()
    for (server, worker, *issuer), sent in _places(worker_metrics):
        for values, numbers in sent.get(metric.name, ()):
            owner = (server, *issuer) if metric.shared else (server, worker, *issuer)
            if (whole := (*owner, *values)) not in labels:
                labels.add(whole)
                yield whole, numbers


def _places(worker_metrics: WorkerMetrics) -> Iterator[tuple[tuple[str, ...], Snapshot]]:
    """Yield the metrics of each issuer in each worker, with the labels that say whose they are."""
    several = _has_issuers(worker_metrics)
    for (server, worker), by_issuer in worker_metrics.items():
        for issuer, sent in (by_issuer or {}).items():
            yield (server, str(worker), *((issuer,) if several else ())), sent


def _has_issuers(worker_metrics: WorkerMetrics) -> bool:
    return any(any(by_issuer) for by_issuer in worker_metrics.values() if by_issuer)


_PATIENCE = 0.8  # seconds for the other workers' metrics, so that a scrape takes less than one
_REQUEST_WITHIN = 2.0  # seconds for a scraper to send its request
_RESPONSE_WITHIN = 2.0  # seconds for a scraper to receive the response
_REQUEST_BYTES = 8 * 1024
_LOOK_EVERY = 0.5
_AT_ONCE = 16
"""Connections that a worker answers at once; further ones wait, each for at most four seconds."""

_MEASURING = threading.Lock()
_PIECE = 256 * 1024


def begin(scraping: Scraping, token: str) -> None:
    """Start answering scrapes, for as long as this process lives.

    Raises OperatorError if other machines could scrape without a token.
    """
    scraped = socket.socket(fileno=scraping.descriptor)
    # The socket is that of the start: since then a reload may have changed `metrics.listen`.
    if not token and not is_loopback(str(scraped.getsockname()[0])):
        message = "metrics are served to other machines until a restart, which needs a token"
        raise OperatorError(message, "metrics.bearer_token")
    metrics.BUILD.set(1, version("valetkey"), python_version())
    metrics.STARTED.set(SYSTEM.now())

    def scrape(caller: socket.socket) -> None:
        _scrape(caller, scraping, token)

    _on_thread("metrics-scrape", scraped, scrape)


def report(scraping: Scraping, server: str, worker: int) -> None:
    """Report this process's metrics as those of the worker, in place of its previous process.

    Call it once the worker is ready: the previous process serves until then.
    """
    fresh = Path(scraping.folder, f"{server}-{worker}.{os.getpid()}")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(fresh))
    listening.listen(16)
    fresh.replace(_address(scraping, server, worker))
    _on_thread("metrics-tell", listening, _send_metrics)


def _address(scraping: Scraping, server: str, worker: int) -> Path:
    return Path(scraping.folder, f"{server}-{worker}.metrics")


def _on_thread(
    name: str, listening: socket.socket, answer: Callable[[socket.socket], None]
) -> None:
    threading.Thread(target=_serve, args=(listening, answer), name=name, daemon=True).start()


def _serve(listening: socket.socket, answer: Callable[[socket.socket], None]) -> None:
    free = threading.BoundedSemaphore(_AT_ONCE)
    with DefaultSelector() as selector:
        selector.register(listening, EVENT_READ)
        while True:
            selector.select()
            try:
                # Another worker may have accepted it first.
                caller, _ = listening.accept()
            except BlockingIOError:
                continue
            except OSError as failure:
                # Out of descriptors, for example: retrying at once would only use up CPU time.
                log.throttled("error", "metrics.failed", failure.strerror or type(failure).__name__)
                time.sleep(_LOOK_EVERY)
                continue
            work = threading.Thread(target=_answer, args=(caller, answer, free), daemon=True)
            free.acquire()
            try:
                work.start()
            except RuntimeError as failure:
                log.throttled("error", "metrics.failed", f"no thread: {failure}")
                free.release()
                caller.close()


def _answer(
    caller: socket.socket, answer: Callable[[socket.socket], None], free: threading.Semaphore
) -> None:
    with caller:
        try:
            caller.settimeout(_REQUEST_WITHIN)
            answer(caller)
        except OSError:
            pass  # The scraper left, or was too slow.
        except Exception as failure:  # noqa: BLE001 - a fault of one scrape
            log.error("metrics.failed", failure)
        finally:
            free.release()


def _send_metrics(caller: socket.socket) -> None:
    # CPU time is added as the difference to what was counted.
    with _MEASURING:
        _measure_process()
        content = msgspec.json.encode(metrics.snapshots())
    caller.sendall(content)


def _scrape(caller: socket.socket, scraping: Scraping, token: str) -> None:
    request, fields = _read(caller)
    method, _, rest = request.partition(" ")
    status, body, media_type = HTTPStatus.OK, b"", "text/plain; charset=utf-8"
    scheme, _, shown = fields.get("authorization", "").partition(" ")
    if token and not (scheme.lower() == "bearer" and same(shown.strip(), token)):
        status = HTTPStatus.UNAUTHORIZED
    elif rest.partition(" ")[0].partition("?")[0] != "/metrics":
        status = HTTPStatus.NOT_FOUND
    elif method != "GET":
        status = HTTPStatus.METHOD_NOT_ALLOWED
    else:
        body, media_type = expose(_ask(scraping), fields.get("accept", ""))
    head = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {media_type}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if status is HTTPStatus.UNAUTHORIZED:
        head.append("WWW-Authenticate: Bearer")
    # Reading left only the rest of its own time.
    caller.settimeout(_RESPONSE_WITHIN)
    caller.sendall("\r\n".join([*head, "", ""]).encode() + body)


def _read(caller: socket.socket) -> tuple[str, Mapping[str, str]]:
    """Return the request line and the fields; raises OSError if they are too slow or too large."""
    deadline, received = time.monotonic() + _REQUEST_WITHIN, b""
    while b"\r\n\r\n" not in received:
        caller.settimeout(max(0.001, deadline - time.monotonic()))
        piece = caller.recv(_REQUEST_BYTES)
        received += piece
        if not piece or len(received) > _REQUEST_BYTES:
            raise ConnectionAbortedError
    top, *lines = received.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines)
    return top, {name.strip().lower(): value.strip() for name, _, value in fields}


def _ask(scraping: Scraping) -> WorkerMetrics:
    """Return the metrics of every worker, this one included; None for one that was too slow."""
    places = [(server, n) for server, many in scraping.workers.items() for n in range(many)]
    worker_metrics: dict[Worker, Mapping[str, Snapshot] | None] = dict.fromkeys(places)
    heard: dict[Worker, bytes] = {}
    deadline = time.monotonic() + _PATIENCE
    with contextlib.ExitStack() as stack, DefaultSelector() as selector:
        for server, number in places:
            connection = stack.enter_context(socket.socket(socket.AF_UNIX))
            connection.setblocking(False)
            with contextlib.suppress(OSError):
                connection.connect(str(_address(scraping, server, number)))
                selector.register(connection, EVENT_READ, ((server, number), connection))
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                worker, connection = key.data
                try:
                    piece = connection.recv(_PIECE)
                except OSError:
                    selector.unregister(connection)
                    continue
                heard[worker] = heard.get(worker, b"") + piece
                if not piece:
                    selector.unregister(connection)
                    with contextlib.suppress(msgspec.DecodeError):
                        worker_metrics[worker] = msgspec.json.decode(
                            heard[worker], type=dict[str, dict[str, list[Sample]]]
                        )
    return worker_metrics


def _measure_process() -> None:
    used = time.process_time()
    metrics.CPU.add(amount=used - sum(number for _, (number,) in metrics.CPU.samples()))
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        metrics.MEMORY.set(pages * resource.getpagesize())
        metrics.DESCRIPTORS.set(open_descriptors())
    metrics.DESCRIPTORS_LIMIT.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
