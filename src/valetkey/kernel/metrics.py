"""Declare every metric of both servers: name, labels, help text and how it is counted.

Each process counts in memory; `cli/serving/scrape.py` adds up the processes of an installation. No
label holds a value that a caller chose: labels are route patterns, names of checks, and codes.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from operator import add
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

from valetkey.kernel.runtime import ISSUER

Labels = tuple[object, ...]
"""Label values in the order of the metric's label names; each is converted with `str`."""

Sample = tuple[tuple[str, ...], Sequence[float]]
"""Label values, then one number; for a histogram the count of each bucket and the sum."""

Snapshot = Mapping[str, Sequence[Sample]]
"""The samples of one process by metric name, and under `EXEMPLARS` those of requests."""

EXEMPLARS = "exemplars"

PREFIX = "valetkey_"
MOST_SERIES = 2_000
"""Maximum number of series of one metric in one process, for each issuer; further ones are counted
under `other`."""

OTHER = "other"

_REFUSED, _FAILED, _UNAVAILABLE = 400, 500, 503


class Metric(ABC):
    """A metric: `name` without the prefix, one line of help, the names of its labels."""

    kind = ""

    def __init__(self, name: str, help_: str, *labels: str, shared: bool = False) -> None:
        """Add the metric to the catalogue.

        `shared`: the metric describes the database, so that every process of a server reads equal
        values, and one value is reported instead of one for each worker.
        """
        self.name = name
        self.help = help_
        self.labels = labels
        self.shared = shared
        self._turn = Lock()
        if name in _catalogue:
            raise ValueError(f"there are two metrics of the name {name}")
        _catalogue[name] = self

    @abstractmethod
    def samples(self) -> Iterator[Sample]:
        """Return the samples counted so far for the issuer at work."""

    def issuers(self) -> Collection[str]:
        """Return the issuers for which it counted, "" among them for the process itself."""
        return ()


class Counter(Metric):
    """A number that only increases."""

    kind = "counter"

    def __init__(self, name: str, help_: str, *labels: str) -> None:
        """Start at zero."""
        super().__init__(name, help_, *labels)
        self._by_issuer: dict[str, dict[Labels, float]] = {}

    @property
    def _values(self) -> dict[Labels, float]:
        return _of_issuer(self._by_issuer)

    def issuers(self) -> Collection[str]:
        """See `Metric.issuers`."""
        return tuple(self._by_issuer)

    def add(self, *labels: object, amount: float = 1) -> None:
        """Increase the number by `amount`; safe to call from any thread."""
        # No lock, which would cost more than the rest: threads are not switched in between, and
        # where they could be, one increment would be lost.
        values = self._values
        try:
            values[labels] += amount
        except KeyError:
            with self._turn:
                if len(values) >= MOST_SERIES:
                    labels = (OTHER,) * len(labels)
                values[labels] = values.get(labels, 0) + amount

    def samples(self) -> Iterator[Sample]:
        """Return the number for each set of label values."""
        values = self._values.copy()
        return ((_shown(labels), (value,)) for labels, value in values.items())


class Gauge(Metric):
    """A number that goes up and down, either set or computed when it is read."""

    kind = "gauge"

    def __init__(self, name: str, help_: str, *labels: str, shared: bool = False) -> None:
        """Start without values."""
        super().__init__(name, help_, *labels, shared=shared)
        self._set: dict[str, dict[Labels, float]] = {}
        self._read: dict[str, dict[Labels, Callable[[], float]]] = {}

    def issuers(self) -> Collection[str]:
        """See `Metric.issuers`."""
        return {*self._set.copy(), *self._read.copy()}

    def set(self, value: float, *labels: object) -> None:
        """Set the number for these label values."""
        with self._turn:
            _of_issuer(self._set)[labels] = value

    def replace(self, values: Mapping[Labels, float]) -> None:
        """Replace all values by these."""
        with self._turn:
            self._set[ISSUER.get()] = dict(values)

    def read_from(self, how: Callable[[], float], *labels: object) -> None:
        """Call `how` whenever the value is read, on any thread; a later call replaces it."""
        with self._turn:
            _of_issuer(self._read)[labels] = how

    def samples(self) -> Iterator[Sample]:
        """Return the number for each set of label values."""
        with self._turn:
            values = dict(_of_issuer(self._set))
            sources = list(_of_issuer(self._read).items())
        values.update((labels, how()) for labels, how in sources)
        return ((_shown(labels), (value,)) for labels, value in values.items())


class Histogram(Metric):
    """A histogram: the number of observations at or below each bound."""

    kind = "histogram"

    def __init__(self, name: str, help_: str, *labels: str, bounds: Sequence[float]) -> None:
        """Count into buckets that end at `bounds`, plus one unbounded bucket."""
        super().__init__(name, help_, *labels)
        self.bounds = tuple(bounds)
        self._by_issuer: dict[str, dict[Labels, list[float]]] = {}

    @property
    def _counts(self) -> dict[Labels, list[float]]:
        return _of_issuer(self._by_issuer)

    def issuers(self) -> Collection[str]:
        """See `Metric.issuers`."""
        return tuple(self._by_issuer)

    def observe(self, value: float, *labels: object) -> None:
        """Count one observation; safe to call from any thread."""
        counts = self._counts.get(labels) or self._first(labels)
        counts[bisect_left(self.bounds, value)] += 1
        counts[-1] += value

    def samples(self) -> Iterator[Sample]:
        """Return the count of each bucket and then the sum, for each set of label values."""
        counted = self._counts.copy()
        return ((_shown(labels), counts.copy()) for labels, counts in counted.items())

    def _first(self, labels: Labels) -> list[float]:
        with self._turn:
            counts = self._counts
            if len(counts) >= MOST_SERIES:
                labels = (OTHER,) * len(labels)
            return counts.setdefault(labels, [0.0] * (len(self.bounds) + 2))


class RequestSeconds(Histogram):
    """Request durations, counted by route, method and status, reported by route and outcome.

    Each bucket keeps the trace of its latest sampled request as its exemplar.
    """

    def __init__(self, name: str, help_: str, *labels: str, bounds: Sequence[float]) -> None:
        """Start without exemplars."""
        super().__init__(name, help_, *labels, bounds=bounds)
        self._latest: dict[str, dict[tuple[str, str, int], tuple[str, float, int]]] = {}

    def show(self, value: float, trace_id: str, at: int, route: str, status: int) -> None:
        """Keep this request as the exemplar of its bucket."""
        # Bounded by the routes; the trace id has 32 characters of the 128 that OpenMetrics permits.
        bucket = bisect_left(self.bounds, value)
        latest = _of_issuer(self._latest)
        latest[route, outcome_of(status), bucket] = trace_id, value, at

    def exemplars(self) -> Iterator[Sample]:
        """Return route, outcome, number of the bucket and trace id; then duration and time."""
        for (route, outcome, bucket), (trace_id, value, at) in (
            _of_issuer(self._latest).copy().items()
        ):
            yield (route, outcome, str(bucket), trace_id), (value, at)

    def samples(self) -> Iterator[Sample]:
        """Return the buckets and the sum of each route and outcome."""
        by_labels: dict[Labels, list[float]] = {}
        for (route, _, status), counts in self._counts.copy().items():
            # Beyond MOST_SERIES the status is no number.
            labels = (route, outcome_of(status) if isinstance(status, int) else OTHER)
            by_labels[labels] = [*map(add, by_labels.get(labels, [0.0] * len(counts)), counts)]
        return ((_shown(labels), counts) for labels, counts in by_labels.items())

    def requests(self) -> Iterator[Sample]:
        """Return the number of requests by route, method and status."""
        counted = self._counts.copy()
        return ((_shown(labels), (sum(counts[:-1]),)) for labels, counts in counted.items())


def outcome_of(status: int) -> str:
    """Return the outcome of a response: ok, refused (4xx), unavailable (503) or failed (5xx)."""
    if status < _REFUSED:
        return "ok"
    if status < _FAILED:
        return "refused"
    return "unavailable" if status == _UNAVAILABLE else "failed"


class RequestCounter(Counter):
    """The number of requests, derived from their durations so that a request is counted once."""

    def __init__(self, name: str, help_: str, *labels: str, of: RequestSeconds) -> None:
        """Derive the numbers from `of`."""
        super().__init__(name, help_, *labels)
        self._of = of

    def samples(self) -> Iterator[Sample]:
        """Return the number for each set of label values."""
        return self._of.requests()


def _shown(labels: Labels) -> tuple[str, ...]:
    return tuple(map(str, labels))


K = TypeVar("K")
V = TypeVar("V")


def _of_issuer(counted: dict[str, dict[K, V]]) -> dict[K, V]:
    """Return what was counted for the issuer at work."""
    counts = counted.get(issuer := ISSUER.get())
    return counted.setdefault(issuer, {}) if counts is None else counts


def snapshots() -> Mapping[str, Snapshot]:
    """Return everything that this process has counted, by issuer; "" is the process itself."""
    issuer_snapshots: dict[str, Snapshot] = {}
    for issuer in {"", *(name for metric in _catalogue.values() for name in metric.issuers())}:
        at_work = ISSUER.set(issuer)
        try:
            issuer_snapshots[issuer] = snapshot()
        finally:
            ISSUER.reset(at_work)
    return issuer_snapshots


def snapshot() -> Snapshot:
    """Return everything that this process has counted for the issuer at work."""
    samples = {name: list(metric.samples()) for name, metric in _catalogue.items()}
    if exemplars := list(HTTP_SECONDS.exemplars()):
        samples[EXEMPLARS] = exemplars
    return samples


_catalogue: dict[str, Metric] = {}
CATALOGUE: Mapping[str, Metric] = MappingProxyType(_catalogue)
"""Every metric by name, in the order of the reference."""

_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

HTTP_SECONDS = RequestSeconds(
    "http_request_duration_seconds",
    "Time the server took to answer, without the time a client took to send a body; of streams,"
    " until they began. By outcome: ok, refused (4xx), unavailable (503), failed (other 5xx).",
    "route",
    "outcome",
    bounds=_FAST,
)
HTTP_REQUESTS = RequestCounter(
    "http_requests",
    "Requests answered, by route, method and status.",
    "route",
    "method",
    "status",
    of=HTTP_SECONDS,
)
HTTP_ACTIVE = Gauge("http_requests_active", "Requests that wait for their answers.")
HTTP_CONNECTIONS = Gauge("http_connections", "Open connections.")
HTTP_CONNECTIONS_LIMIT = Gauge(
    "http_connections_limit", "Connections that one worker keeps open: limits.connections."
)
HTTP_REFUSED = Counter(
    "http_refused",
    "Connections and requests refused before routing: full, address, busy,"
    " malformed, late, failed.",
    "reason",
)
UNAVAILABLE = Counter(
    "unavailable", "Requests answered with 503, by the kind of failure.", "failure"
)
TOKENS = Counter(
    "tokens_issued",
    "Access tokens issued, by grant type and by type of client: public, confidential.",
    "grant_type",
    "client_type",
)
REFUSALS = Counter("refusals", "Refused requests, by the check that failed.", "check")
SIGN_INS = Counter(
    "sign_ins",
    "Sign-ins, by methods (RFC 8176, joined by +) and result: succeeded, failed, throttled.",
    "method",
    "result",
)
EVENTS = Counter("audit_events", "Events committed to the audit log, by name.", "event")
AUDIT_WAITING = Gauge(
    "audit_unchained_oldest_seconds",
    "Age of the oldest event that is not in the audit log's hash chain; 0 if there is none.",
    shared=True,
)
AUDIT_EXPORT_LAG = Gauge(
    "audit_export_lag_seconds",
    "Age of the oldest block of the audit log that a destination does not have; 0 if it has all.",
    "destination",
    shared=True,
)
AUDIT_EXPORT_FAILURES = Counter(
    "audit_export_failures", "Batches that a destination did not take.", "destination"
)
QUEUE = Gauge("queue_length", "Work that waits in one process.", "queue")
OUTBOX = Gauge(
    "outbox_length", "Messages in the database that are not delivered.", "outbox", shared=True
)
WEBHOOKS = Counter(
    "webhook_attempts", "Attempts to send an event to a webhook: delivered, failed.", "outcome"
)
SIGNALS = Counter(
    "signal_attempts", "Attempts to push a security event: delivered, failed.", "outcome"
)
SIGNAL_FAILING = Gauge(
    "signal_failing_seconds",
    "How long the receiver of a stream of security events has failed; 0 if it answers.",
    "stream",
    shared=True,
)
WEBHOOK_FAILING = Gauge(
    "webhook_failing_seconds",
    "How long the receiver of an operator's webhook has failed; 0 if it answers.",
    "webhook",
    shared=True,
)
MAILS = Counter("mail_attempts", "Attempts to send an email: delivered, failed.", "outcome")
OUTBOX_AGE = Gauge(
    "outbox_oldest_seconds",
    "How long the oldest message has been waiting; 0 if there is none.",
    "outbox",
    shared=True,
)
GROUP = Histogram(
    "database_group_size",
    "Transactions that were committed together.",
    bounds=(1, 2, 4, 8, 16, 32, 64, 128, 256),
)
DATABASE_SECONDS = Histogram(
    "database_transaction_duration_seconds",
    "Time of a group of transactions from its begin to its end, by kind.",
    "kind",
    bounds=_FAST,
)
DATABASE_WAIT = Histogram(
    "database_wait_seconds",
    "Time the first transaction of a group waited for its turn.",
    bounds=_FAST,
)
DATABASE_FAILURES = Counter(
    "database_failures", "Transactions that failed for want of disk, lock, connection or time."
)
POOL = Gauge("database_connections", "PostgreSQL connections of one process, by state.", "state")
REPLICA = Counter(
    "database_replica_reads",
    "Questions to replicas of the database, by result: answered; behind, failed and undecided were"
    " asked of the primary.",
    "result",
)
DATABASE_BYTES = Gauge(
    "database_size_bytes",
    "Size on disk, by part: each table with its indexes, the files of SQLite (main, wal, shm), the"
    " write-ahead log of the PostgreSQL server (wal).",
    "part",
    shared=True,
)
CACHE = Counter(
    "cache_requests", "Look-ups in caches of one process, by result: hit, miss.", "cache", "result"
)
SIGNING_KEY_AGE = Gauge(
    "signing_key_age_seconds",
    "Time since the current signing key began to sign, by algorithm.",
    "algorithm",
    shared=True,
)
SIGNING_KEY_LIFETIME = Gauge(
    "signing_key_lifetime_seconds", "How long a key signs: tokens.signing_key_lifetime."
)
SPANS_EXPORTED = Counter("trace_spans_exported", "Spans that the collector of traces took.")
SPANS_DROPPED = Counter(
    "trace_spans_dropped",
    "Spans that were not exported: queue (full), rejected by the collector, failed.",
    "reason",
)
JOB_FAILURES = Counter("job_failures", "Background jobs that failed and were run again.", "task")
LOG_LINES = Counter("log_messages", "Messages of the log, by level, requests aside.", "level")
CERTIFICATE = Gauge(
    "certificate_expires_seconds",
    "Time until the certificate that a worker serves expires; negative once it has.",
)
LOOP_LAG = Histogram(
    "event_loop_lag_seconds",
    "How late the event loop was, looked at twice a second.",
    bounds=_FAST,
)
CLOCK_STEPS = Counter(
    "clock_steps",
    "Steps of the machine's clock by two seconds or more, by direction: forward, back.",
    "direction",
)
MEMORY = Gauge("process_resident_memory_bytes", "Resident memory of one process.")
CPU = Counter("process_cpu_seconds", "CPU time of one process.")
DESCRIPTORS = Gauge("process_open_fds", "Open file descriptors of one process.")
DESCRIPTORS_LIMIT = Gauge("process_max_fds", "File descriptors that it may open.")
STARTED = Gauge("process_start_time_seconds", "When the process started, in Unix time.")
BUILD = Gauge("build_info", "Always 1; the version that runs.", "version", "python")
DOCUMENTATION = Gauge(
    "documentation_info",
    "Always 1; the URL below which this version's documentation is served, for links of alerts.",
    "url",
    shared=True,
)
WORKER_UP = Gauge(
    "worker_up", "1 if the worker answered this scrape within a second, 0 if it did not."
)
