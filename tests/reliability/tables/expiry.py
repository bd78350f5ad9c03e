"""E17: codes and tokens expire under load; the cleanup keeps up, and no request waits for it."""

import random
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.ports import free_port
from tests.reliability.flows import App, flowing, late
from tests.reliability.nodes import Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.reliability.tables.rows import MEMORY, Raw, connected, fill
from tests.reliability.tables.space import Reuse
from tests.support import postgres
from tests.support.wait import wait_until
from valetkey.kernel.runtime import SYSTEM

_ROWS = 1_000
"""Rows for each of `times`."""

_RATE = 1_000  # rows that expire in a second
_SOON = 12  # seconds until the first one expires
_MANY = 100_000  # rows, below which a run is too short to judge latency and sizes
_MOST_LOG = 64 * 2**20
_MOST_ADDED = 5.0  # milliseconds
_MOST_ROWS = 1.2

_EXPIRED = (
    "SELECT (SELECT count(*) FROM access_tokens WHERE expires_at <= {now})"
    " + (SELECT count(*) FROM vouchers WHERE expires_at <= {now} - {memory})"
)


@dataclass
class _Watch:
    """Looks at tables and files twice a second."""

    raw: Raw
    file: Path | None
    rows: int
    began: int
    seconds: int
    most: int = 0
    waiting: int = 0
    ratio: float = 1.0
    log: int = 0
    sizes: list[int] = field(default_factory=list[int])
    swept: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    quiet: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    _over: threading.Event = field(default_factory=threading.Event)

    def expired(self) -> int:
        """Rows that a cleanup would delete now."""
        return self.raw.number(_EXPIRED.format(now=SYSTEM.now(), memory=MEMORY))

    def look(self) -> None:
        """Measure until `end`."""
        before, at = self.expired(), time.monotonic()
        while not self._over.wait(0.25):
            count, now = self.expired(), time.monotonic()
            # While nobody deletes, the number only grows.
            (self.swept if count < before else self.quiet).append((at, now))
            self.most, self.waiting = max(self.most, count), count
            due = min(1.0, max(0.0, (SYSTEM.now() - self.began) / self.seconds))
            live = 2 * self.rows - int(due * self.rows)
            self.ratio = max(self.ratio, (live + count) / live)
            if self.file is not None:
                log = self.file.with_name(f"{self.file.name}-wal")
                self.log = max(self.log, log.stat().st_size if log.exists() else 0)
                self.sizes.append(self.file.stat().st_size)
            before, at = count, now

    @property
    def grown(self) -> int:
        """Bytes by which the file grew after the first quarter."""
        return self.sizes[-1] - self.sizes[len(self.sizes) // 4] if self.sizes else 0

    def end(self) -> None:
        """Stop measuring."""
        self._over.set()


@dataclass(frozen=True, slots=True)
class _Found:
    engine: str
    watch: _Watch
    wrong: int
    requests: int
    quiet: float
    swept: float
    left: int
    reuse: Reuse | None
    """None on PostgreSQL."""

    @property
    def held(self) -> bool:
        fine = not self.wrong and not self.left and self.watch.log < _MOST_LOG
        if self.watch.rows < _MANY:
            return fine and self.requests > 0
        return (
            fine
            and self.watch.ratio <= _MOST_ROWS
            and self.swept - self.quiet < _MOST_ADDED
            and (self.reuse is None or self.reuse.held)
        )

    def __str__(self) -> str:
        file = f", log {self.watch.log / 2**20:.0f} MiB at most, {self.reuse}" if self.reuse else ""
        return (
            f"{self.engine}: {self.watch.rows} expired in {self.watch.seconds} s, "
            f"{self.left} left, {self.watch.most} waiting at most, "
            f"rows × {self.watch.ratio:.2f}{file}; "
            f"{self.requests} requests, {self.wrong} failed, p99 {self.quiet:.1f} ms, "
            f"{self.swept:.1f} ms beside the cleanup"
        )


def bounded_tables(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Have `times` thousand rows expire, half of them on each engine."""
    with postgres.database() as url:
        halves = {"PostgreSQL": times // 2, "SQLite": times - times // 2}
        results = [
            _run(folder / name, name, url, thousands * _ROWS, chance)
            for name, thousands in halves.items()
            if thousands
        ]
    promise = (
        "rows ≤ 1.2 × unexpired, cleanup adds less than 5 ms at p99, "
        "SQLite's file grows only for rows that have no room where others expired, its log stays "
        "below 64 MiB"
    )
    counts = "; ".join(map(str, results))
    return Outcome("E17 bounded tables", promise, counts, all(result.held for result in results))


def _run(folder: Path, engine: str, url: str, rows: int, chance: random.Random) -> _Found:
    address = f"127.0.0.1:{free_port()}"
    node = Node(folder)
    folder.mkdir()
    file = folder / "a/auth.db" if engine == "SQLite" else None
    database = url if file is None else "sqlite:///a/auth.db"
    configure(folder, url=f"http://{address}", listen=address, database=database)
    register(folder)
    with connected(file, url) as raw, stopped_in_the_end(node):
        seconds = max(1, rows // _RATE)
        fill(raw, engine, rows // 2, SYSTEM.now() + 86_400, 1)
        began = SYSTEM.now() + (_SOON if rows >= _MANY else 1)
        fill(raw, engine, rows // 2, began, seconds)
        before = raw.space()
        node.start()
        watch = _Watch(raw, file, rows, began, seconds)
        with flowing(address, chance) as apps:
            watching = threading.Thread(target=watch.look)
            watching.start()
            try:
                time.sleep(max(0, began + seconds - SYSTEM.now()))
                # A cleanup that does not keep up breaks the promise; the row says by how much.
                with suppress(AssertionError):
                    wait_until(lambda: watch.most and not watch.waiting)
            finally:
                watch.end()
                watching.join()
        left, after = watch.expired(), raw.space()
    reuse = Reuse(before, after, before.rows // 2, watch.grown) if before and after else None
    return _found(engine, watch, apps, left, reuse)


def _found(
    engine: str, watch: _Watch, apps: Sequence[App], left: int, reuse: Reuse | None
) -> _Found:
    answers = sum((app.answers for app in apps), Counter[str]())
    return _Found(
        engine,
        watch,
        wrong=sum(count for name, count in answers.items() if name not in {"200", "303"}),
        requests=answers.total(),
        quiet=_late(apps, watch.quiet),
        swept=_late(apps, watch.swept),
        left=left,
        reuse=reuse,
    )


def _late(apps: Sequence[App], spans: Sequence[tuple[float, float]]) -> float:
    """The 99th percentile of the requests that began in one of these spans."""
    begins = [begin for begin, _ in spans]
    taken: list[float] = []
    for app in apps:
        for took in app.took:
            index = bisect_right(begins, took.at) - 1
            if index >= 0 and took.at < spans[index][1]:
                taken.append(took.seconds)
    return late(taken)
