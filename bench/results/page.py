"""The committed results, and everything written from them: `python -m bench.results.page`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.peers.ceiling import NAME as CEILING
from bench.peers.compare import RATE, Figures
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import (
    BARE_FLOW,
    DISCOVERY,
    FLOW,
    IN_TURN,
    INTROSPECTION,
    JWT,
    KEYS,
    MIX,
    REFERENCE,
    REFRESH,
    USERINFO,
    WORKLOADS,
)
from bench.results import plot

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "bench/results/side-by-side.json"
PAGE = _ROOT / "docs/explanation/performance.md"
PLOT = _ROOT / "docs/benchmark.svg"
README = _ROOT / "README.md"
_FROM = (
    "<!-- Written from bench/results by `python -m bench.results.page`, down to the next such line."
    " -->\n"
)
_TO = "<!-- The end of what is written. -->\n"
_NODE = "oidc-provider, memory"
_REDIS = "oidc-provider, Redis everysec"
_PYTHON = (
    "django-oauth-toolkit, SQLite FULL",
    "django-oauth-toolkit, PostgreSQL",
    "Authlib, SQLite FULL",
    "Authlib, PostgreSQL",
)
_OWED: Sequence[tuple[str, float, float]] = (
    (JWT, 2.0, 2.0),
    (REFERENCE, 1.2, 2.0),
    (IN_TURN, 2.0, 2.0),
    (INTROSPECTION, 2.0, 2.0),
    (FLOW, 1.5, 2.5),
    (REFRESH, 1.5, 3.0),
    (USERINFO, 2.0, 2.0),
    (KEYS, 2.0, 2.0),
    (DISCOVERY, 2.0, 2.0),
)
"""How many times oidc-provider in memory, and on Redis, we want to be."""

_OWED_PYTHON = 10.0
_OWED_CEILING = 0.6


@dataclass(frozen=True, slots=True)
class Results:
    """One run, and where it ran. `note` says what else the machine was doing."""

    machine: str
    note: str
    rounds: int
    seconds: float
    figures: Figures


def read() -> Results:
    """The committed run."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def share(figures: Figures, workload: str) -> float | None:
    """What Valetkey on SQLite does of `workload`, over what the ceiling does of its kind."""
    own, ceiling = figures.median(workload, ON_SQLITE), figures.median(workload, CEILING)
    return own / ceiling if own and ceiling else None


def table(results: Results) -> str:
    """The medians as the terminal shows them."""
    figures, names = results.figures, _names(results.figures)
    heads = [(name.partition(", ")[0][:20], name.partition(", ")[2]) for name in names]
    lines = [
        f"{'':44}" + "".join(f"{head:>26}" for head, _ in heads),
        f"{'operations per CPU-second':44}" + "".join(f"{more:>26}" for _, more in heads),
    ]
    for workload in figures.rates:
        cells = (figures.spread(workload, name) for name in names)
        lines.append(f"{workload:44}" + "".join(f"{cell:>26}" for cell in cells))
    rows = {
        "start to first answer, s": [f"{figures.started[name]:.1f}" for name in names],
        "memory idle, MB": [f"{sum(figures.memory[name][0])}" for name in names],
        "memory after the load, MB": [f"{sum(figures.memory[name][1])}" for name in names],
        f"latency at {RATE}/s, median / p99 ms": [_latency(figures, name) for name in names],
    }
    for head, texts in rows.items():
        lines.append(f"{head:44}" + "".join(f"{text:>26}" for text in texts))
    return "\n".join(lines)


def _names(figures: Figures) -> list[str]:
    return list(figures.started)


def _latency(figures: Figures, name: str) -> str:
    if name not in figures.latencies:
        return "-"
    median, slow = figures.latencies[name]
    return f"{median:.1f} / {slow:.1f}"


def rendered(results: Results) -> str:
    """The page."""
    return "\n\n".join(_page(results)) + "\n"


def _page(results: Results) -> Iterator[str]:
    figures, names = results.figures, _names(results.figures)
    yield (
        "<!-- Written from bench/results by `python -m bench.results.page`. Change the results, "
        "not this page. -->"
    )
    yield "# Performance, side by side"
    yield (
        "What Valetkey does with a second of CPU, beside other servers on the same machine,\n"
        "in the same run, under the same load. `make bench` measures it where you are."
    )
    yield "![Operations per CPU-second of each server](../benchmark.svg)"
    yield "## Operations per CPU-second"
    yield _markdown(
        ["", *names],
        [
            [workload, *(figures.spread(workload, name) for name in names)]
            for workload in figures.rates
        ],
    )
    yield (
        f"Medians of {results.rounds} rounds of {results.seconds:g} s, with the lowest and the "
        "highest. "
        f"Machine: {results.machine}.\nCommand: `{_command(results)}`. {results.note}".strip()
    )
    yield "\n".join(f"- {each}" for each in (*figures.versions, *figures.missing))
    yield "## Beside what we owe ourselves"
    yield from _owed(figures)
    yield "## Start, memory, latency"
    yield _markdown(
        ["", "first answer, s", "idle, MB", "after the load, MB", "largest process", "median, ms",
         "p99, ms"],
        [_life(figures, name) for name in names],
    )  # fmt: skip
    yield (
        f"Latency is that of a token by client credentials at a fixed {RATE} a second, counted\n"
        "from the moment the request was due. Memory is that of all processes together, what they\n"
        "share counted once: Valetkey is three (a supervisor and two servers), and its PostgreSQL\n"
        "is counted with it."
    )
    yield (
        "Seconds and milliseconds are by the clock on the wall: what others do on the machine is\n"
        "in them."
    )
    yield "## Method"
    yield _METHOD
    yield "## What is unfair about it"
    yield _UNFAIR


def _owed(figures: Figures) -> Iterator[str]:
    rows: list[list[str]] = []
    for workload, memory, redis in _OWED:
        if workload not in figures.rates:
            continue
        rows.append(
            [
                workload,
                _times(figures, workload, _NODE, memory),
                _times(figures, workload, _REDIS, redis),
                *(_times(figures, workload, name, _OWED_PYTHON) for name in _PYTHON),
            ]
        )
    rows += [
        [workload, *(_times(figures, workload, name) for name in (_NODE, _REDIS, *_PYTHON))]
        for workload in (BARE_FLOW, MIX)
    ]
    yield _markdown(["Valetkey on SQLite is times", _NODE, _REDIS, *_PYTHON], rows)
    part = share(figures, JWT)
    constant = share(figures, KEYS)
    if part is not None and constant is not None:
        yield (
            f"Of the ceiling it keeps {part:.0%} for a JWT by client credentials (owed: "
            f"{_OWED_CEILING:.0%}), with policy, events,\nmetrics and log; and "
            f"{constant:.0%} for a document that does not change."
        )
    missed = [cell for row in rows for cell in row[1:] if "owed" in cell]
    yield (
        f"{len(missed)} of the figures above are below what is owed; each says what that is. "
        "[What was tried](what-was-tried.md)\nsays where the time goes."
        if missed
        else "Nothing that is owed is missed."
    )


def _times(figures: Figures, workload: str, name: str, owed: float = 0.0) -> str:
    own, other = figures.median(workload, ON_SQLITE), figures.median(workload, name)
    if not own or not other:
        return "-"
    ratio = own / other
    return f"{ratio:.1f}" + (f" (owed {owed:g})" if ratio < owed else "")


def _command(results: Results) -> str:
    return f"python -m bench --keep --rounds {results.rounds} --seconds {results.seconds:g}"


def _in_short(results: Results) -> str:
    """The ratios as the README states them; of each Python peer, those to its better database."""
    figures = results.figures
    toolkit, authlib = _PYTHON[:2], _PYTHON[2:]
    columns: Sequence[Sequence[str]] = ((_NODE,), (_REDIS,), toolkit, authlib)
    rows: list[list[str]] = []
    for workload, *_ in _OWED:
        if workload not in figures.rates:
            continue
        own = figures.median(workload, ON_SQLITE) or 0.0
        best = [max(figures.median(workload, each) or 0.0 for each in names) for names in columns]
        rows.append([workload, *(f"{own / other:.1f}" if other else "-" for other in best)])
    heads = ["Valetkey on SQLite does, times", _NODE, _REDIS, "django-oauth-toolkit", "Authlib"]
    return (
        "Operations per second of CPU, everything switched on and every write on disk, beside "
        f"others in the same\nrun (`{_command(results)}`; [all figures, the method, and what is "
        "unfair about it](docs/explanation/performance.md)):\n\n" + _markdown(heads, rows) + "\n"
    )


def _life(figures: Figures, name: str) -> list[str]:
    idle, loaded = figures.memory[name]
    median, slow = figures.latencies.get(name, (0.0, 0.0))
    sizes = [f"{sum(idle)}", f"{sum(loaded)}", f"{loaded[0]}"]
    return [name, f"{figures.started[name]:.1f}", *sizes, f"{median:.1f}", f"{slow:.1f}"]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def written() -> dict[Path, str]:
    """Each file that is written from the results, with its text."""
    results = read()
    shown = [name for name in _names(results.figures) if name != CEILING]
    bars = {
        workload: [(name, results.figures.median(workload, name) or 0.0) for name in shown]
        for workload in WORKLOADS
        if results.figures.median(workload, _NODE)
    }
    before, _, rest = README.read_text().partition(_FROM)
    _, _, after = rest.partition(_TO)
    return {
        PAGE: rendered(results),
        PLOT: plot.draw(bars, (ON_SQLITE, ON_POSTGRESQL)),
        README: f"{before}{_FROM}{_in_short(results)}{_TO}{after}",
    }


def write() -> None:
    """Write them."""
    for path, text in written().items():
        path.write_text(text)


_METHOD = """\
- The load and all servers run on one core. Were the load on another, each answer would wake a
  process there, which costs a fast server as much as its work and a slow one nothing.
- All servers are up. Each is warmed until its rate stops rising, then visited in turn, so that a
  slow hour hits all alike.
- A figure is the number of operations over the CPU time that all processes of a server used
  meanwhile: its workers, its idle companions, PostgreSQL with its writers, Redis. Time that others
  used on the machine is not in it.
- 32 callers with kept connections, each beginning again as soon as it has its answer. Every answer
  is checked: its status, and that it holds what it should. Before the rounds the signatures of
  access tokens and ID tokens are verified with the keys that the server publishes.
- A code flow is three steps for the server and counts as one operation: the authorization request
  of somebody who is signed in and allowed it before, the redirect, the exchange by a public client
  with PKCE.
- Valetkey answers when the row is on disk: SQLite with `synchronous=FULL`, PostgreSQL with `fsync`
  and `synchronous_commit` on. Nothing of it is switched off: policy, events, metrics and log.
- django-oauth-toolkit and Authlib run behind gunicorn with one process of four threads, on SQLite
  in WAL with `synchronous=FULL`, and on PostgreSQL, whose processes count with theirs. npm
  oidc-provider runs in one process on its own HTTP server.
- The ceiling is written by hand on our own listener and router: a form, the check of a secret, an
  ES256 JWT, JSON; it keeps nothing. Its figure stands in every row, taken in the same minutes: that
  of its token, and for JWKS and discovery that of a constant document."""

_UNFAIR = """\
- For oidc-provider: in memory it loses everything at a restart, and with Redis what came in the
  last second; we wait for the disk. Its own memory adapter forgets all but a thousand entries; the
  one measured keeps all and is as simple.
- For us: the peers are libraries that others build servers with. We set them up as their
  documentation says, and who knows them better may find more.
- Against us: whoever keeps events, decision records and metrics, as we do, pays for them in these
  figures.
- For django-oauth-toolkit: its secrets of clients are hashed as if they were passwords, which
  allows two token requests a second. That is switched off here. Its ID tokens are RS256, whose
  signature costs more; it has no JWT by client credentials.
- Against us: in the code flow and in refresh our access token is a signed JWT. Those of
  django-oauth-toolkit and Authlib are by reference, and so is that of oidc-provider as soon as the
  scope has `openid`: it signs once in the flow with ID token, where we sign twice. For userinfo
  they look theirs up; we verify ours and look up the grant.
- Against us: gunicorn with more processes, and Node with more, do more in a second on the wall. Per
  CPU-second that changes little."""


if __name__ == "__main__":
    write()
