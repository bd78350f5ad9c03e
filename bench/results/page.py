"""Read the committed results and write the pages: `python -m bench.results.page`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.peers.bare import NAME as BARE
from bench.peers.bare import UNWRITTEN
from bench.peers.ceiling import NAME as CEILING
from bench.peers.compare import RATE, Figures
from bench.peers.own_peer import ON_POSTGRESQL, ON_SQLITE
from bench.peers.work import (
    IN_TURN,
    INTROSPECTION_ONCE,
    JWT,
    KEYS,
    REFRESH,
    RS256_FLOW,
    USERINFO_IN_TURN,
    USERINFO_ONCE,
    WORKLOADS,
)
from bench.results import plot, targets
from bench.results.targets import NODE, PYTHON, SERVERS

_ROOT = Path(__file__).parents[2]
RESULTS = _ROOT / "bench/results/side-by-side.json"
PAGE = _ROOT / "docs/explanation/performance.md"
PLOT = _ROOT / "docs/benchmark.svg"
SHORT_PLOT = _ROOT / "docs/benchmark-short.svg"
README = _ROOT / "README.md"
_FROM = (
    "<!-- Generated from bench/results by `python -m bench.results.page`, until the next comment."
    " -->\n"
)
_TO = "<!-- End of the generated text. -->\n"
_IN_SHORT = (IN_TURN, INTROSPECTION_ONCE, RS256_FLOW, REFRESH, USERINFO_IN_TURN, USERINFO_ONCE)
"""Workloads of the README."""


@dataclass(frozen=True, slots=True)
class Results:
    """One run and its machine. `note` describes other load on the machine."""

    machine: str
    note: str
    rounds: int
    seconds: float
    figures: Figures


def read() -> Results:
    """Return the committed run."""
    return msgspec.json.decode(RESULTS.read_bytes(), type=Results)


def share(figures: Figures, workload: str) -> float | None:
    """Return the rate of Valetkey on SQLite as a share of the ceiling's rate."""
    own, ceiling = figures.median(workload, ON_SQLITE), figures.median(workload, CEILING)
    return own / ceiling if own and ceiling else None


def table(results: Results) -> str:
    """Return the medians as a table for terminals."""
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
        "memory idle, largest process, MB": [f"{figures.memory[name][0][0]}" for name in names],
        "memory idle, all, MB": [f"{sum(figures.memory[name][0])}" for name in names],
        "memory after the load, largest process, MB": [
            f"{figures.memory[name][1][0]}" for name in names
        ],
        "memory after the load, all, MB": [f"{sum(figures.memory[name][1])}" for name in names],
        "its database, idle / after the load, MB": [_database(figures, name) for name in names],
        f"latency at {RATE}/s, median / p99 ms": [_latency(figures, name) for name in names],
    }
    for head, texts in rows.items():
        lines.append(f"{head:44}" + "".join(f"{text:>26}" for text in texts))
    return "\n".join(lines)


def _names(figures: Figures) -> list[str]:
    return list(figures.started)


def _database(figures: Figures, name: str) -> str:
    sizes = figures.databases.get(name)
    return f"{sizes[0]} / {sizes[1]}" if sizes else "-"


def _latency(figures: Figures, name: str) -> str:
    if name not in figures.latencies:
        return "-"
    median, slow = figures.latencies[name]
    return f"{median:.1f} / {slow:.1f}"


def rendered(results: Results) -> str:
    """Return the text of the page."""
    return "\n\n".join(_page(results)) + "\n"


def _page(results: Results) -> Iterator[str]:
    figures, names = results.figures, _names(results.figures)
    yield (
        "<!-- Generated from bench/results by `python -m bench.results.page`. Change the results, "
        "not this page. -->"
    )
    yield "# Benchmark results"
    yield (
        "Operations per second of CPU time of Valetkey and other servers, on the same machine,\n"
        "in the same run and under the same load. `make bench` measures it on your machine."
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
    yield "\n".join(
        f"- {line}" for line in (*figures.versions, *figures.missing, *figures.falling())
    )
    yield "## Targets"
    yield from _targets(figures)
    yield "## Start, memory, latency"
    yield _markdown(
        [
            "",
            "first answer, s",
            "largest process idle, MB",
            "all idle, MB",
            "largest process after the load, MB",
            "all after the load, MB",
            "its database, idle / after the load, MB",
            "median, ms",
            "p99, ms",
        ],
        [_life(figures, name) for name in names],
    )
    apart = "in a column of their own" if figures.databases else "among all processes"
    yield (
        f"Latency: a token by client credentials at a fixed rate of {RATE} a second, counted from\n"
        "the scheduled time of the request. Memory: the proportional set size (PSS), in which\n"
        "memory that processes share is divided among them. The targets are per process. Valetkey\n"
        'has a supervisor and two servers; "all" includes each process that it had at the moment.\n'
        f"The processes of PostgreSQL and Redis are counted {apart}."
    )
    yield (
        "Seconds and milliseconds are wall-clock time, so other load on the machine affects them."
    )
    yield "## Method"
    yield _METHOD
    yield "## Limits of this comparison"
    yield _UNFAIR


def _targets(figures: Figures) -> Iterator[str]:
    target_list = targets.targets(figures)
    yield _markdown(["measured", "target", "result", ""], [target.cells for target in target_list])
    part, constant = share(figures, JWT), share(figures, KEYS)
    if part is not None and constant is not None:
        yield (
            f"Valetkey reaches {part:.0%} of the ceiling on its own listener for a JWT by client "
            "credentials, with policy,\nevents, metrics and log, and "
            f"{constant:.0%} for a constant document."
        )
    missed = sum(not target.met for target in target_list)
    yield (
        f"{missed} of {len(target_list)} targets are not met. "
        "See [what was tried](what-was-tried.md)\nfor where the time goes."
        if missed
        else "All targets are met."
    )


def _command(results: Results) -> str:
    return f"python -m bench --keep --rounds {results.rounds} --seconds {results.seconds:g}"


def _in_short(results: Results) -> str:
    """Return the chart for the README with what it shows."""
    return (
        "![Operations per CPU-second of Valetkey and of other servers, by workload]"
        "(docs/benchmark-short.svg)\n\n"
        "Operations per second of CPU time, with all features enabled and every write synced to "
        f"disk, beside other\nservers in the same run (`{_command(results)}`; [all "
        "figures, the method and its limits](docs/explanation/performance.md)).\n"
        "Where 3,200 tokens are asked about in turn, answers come from a cache. Where each token "
        "is asked about once, no\nserver has the answer yet: it is read from the "
        "database; `oidc-provider, memory` has none.\n"
    )


def _short_bars(figures: Figures) -> dict[str, list[tuple[str, float]]]:
    """Return the bars for the README: our two databases, and the servers that people compare."""
    beside = (NODE, PYTHON[0], *(name for name in SERVERS if name in figures.started))
    names = (ON_SQLITE, ON_POSTGRESQL, *beside)
    return {
        workload: [(name, figures.median(workload, name) or 0.0) for name in names]
        for workload in _IN_SHORT
        if workload in figures.rates
    }


def _life(figures: Figures, name: str) -> list[str]:
    idle, loaded = figures.memory[name]
    median, slow = figures.latencies.get(name, (0.0, 0.0))
    sizes = [f"{idle[0]}", f"{sum(idle)}", f"{loaded[0]}", f"{sum(loaded)}"]
    times = [f"{median:.1f}", f"{slow:.1f}"]
    return [name, f"{figures.started[name]:.1f}", *sizes, _database(figures, name), *times]


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def written() -> dict[Path, str]:
    """Return the text of each generated file."""
    results = read()
    shown = [name for name in _names(results.figures) if name not in (CEILING, BARE, UNWRITTEN)]
    bars = {
        workload: [(name, results.figures.median(workload, name) or 0.0) for name in shown]
        for workload in WORKLOADS
        if results.figures.median(workload, NODE)
    }
    before, _, rest = README.read_text().partition(_FROM)
    _, _, after = rest.partition(_TO)
    return {
        PAGE: rendered(results),
        PLOT: plot.draw(bars, (ON_SQLITE, ON_POSTGRESQL)),
        SHORT_PLOT: plot.draw(_short_bars(results.figures), (ON_SQLITE, ON_POSTGRESQL)),
        README: f"{before}{_FROM}{_in_short(results)}{_TO}{after}",
    }


def write() -> None:
    """Write the generated files."""
    for path, text in written().items():
        path.write_text(text)


_METHOD = """\
- The load generator and all servers share one core. With the generator on another core, each
  response would wake a process there, which costs a fast server as much as its own work.
- All servers run at the same time. Each is warmed up until its rate stops rising. Then they are
  measured in turn, so that other load on the machine affects all of them.
- A figure is the number of operations divided by the CPU time of all processes of a server: its
  workers, supervisor, PostgreSQL and Redis. CPU time of other programs is not included.
- A rate that falls in every round, and by more than a tenth in all, is listed below the figures.
- 32 callers use persistent connections and send the next request as soon as they have a response.
  The status and content of every response are checked. Before the rounds, the signatures of access
  tokens and ID tokens are verified with the published keys.
- A code flow has three steps and counts as one operation: the authorization request of a user who
  is signed in and has consented before, the redirect, and the exchange by a public client with
  PKCE.
- ID tokens are signed with ES256. One row has the code flow with RS256 (2,048 bits) instead, for
  the servers that can sign with it. Before the rounds the algorithm of each server is checked.
- Valetkey responds once the row is on disk: SQLite with `synchronous=FULL`, PostgreSQL with `fsync`
  and `synchronous_commit` on. Policy, events, metrics and log are enabled.
- django-oauth-toolkit and Authlib run behind gunicorn with one process of four threads, on SQLite
  in WAL mode with `synchronous=FULL`, and on PostgreSQL, whose processes are included. npm
  oidc-provider runs in one process on its own HTTP server.
- Introspection and userinfo in turn use 3,200 tokens; one request in ten issues another token. The
  Python servers and Hydra are asked about 320: they cache none, and issuing more takes minutes.
  These visits last three times as long: answers about tokens are cached for 5 s, in which other
  servers are visited, so a short visit would measure little but filling the cache.
- The account page is that of a user with three connected apps and three sessions. Another row has
  the page of the user of all flows, each of which is a grant.
- Keycloak gets 100 CPU-seconds to warm up its compiler. It runs in production mode with its own
  defaults, signs with ES256 and rotates refresh tokens. It has no tokens by reference, so it
  introspects JWTs.
- Hydra runs in production mode, issues JWTs to one client and tokens by reference to the others,
  and rotates refresh tokens. It answers introspection at its admin API. It asks a login and consent
  app in each flow, also of a user who is remembered at both. That app is a part of the benchmark,
  whose CPU time is not counted; what Hydra needs for its five redirects and three requests to the
  admin API is. Its algorithm is that of its key, so a second process signs with RS256.
- The bare ceiling is uvloop and httptools without Valetkey's classes: it parses a form, checks a
  secret, signs an ES256 JWT, writes a durable row (one commit for all that wait) and returns JSON.
  It is measured without the row too.
- The other ceiling is a minimal handler on Valetkey's own listener and router, without storage. Its
  figure is in every row, measured in the same minutes: the rate of its token, or for JWKS and
  discovery of a constant document."""

_UNFAIR = """\
- In favour of oidc-provider: in memory it loses all data at a restart, and with Redis the last
  second; Valetkey waits for the disk. Its own memory adapter keeps only a thousand entries; the
  adapter measured here keeps all of them and is as simple.
- In favour of Valetkey: the other servers are libraries, configured as their documentation says.
  Experts may be able to tune them further.
- Against Valetkey: its figures include the cost of events, decision records and metrics.
- In favour of django-oauth-toolkit: it hashes client secrets like passwords, which allows two token
  requests a second. This is disabled here. It signs ID tokens only with RS256, so of the flows with
  an ID token it has the row for RS256 only. It cannot issue JWTs for client credentials.
- Against Valetkey: in the code flow and in refresh its access token is a signed JWT.
  django-oauth-toolkit and Authlib issue tokens by reference, and so does oidc-provider if the scope
  has `openid`: in the flow with ID token it signs once, Valetkey twice. For userinfo they look up
  the token; Valetkey verifies the signature and looks up the grant.
- In favour of Hydra: it hashes client secrets with 25,000 rounds of PBKDF2 by default; here it is
  one round. Its request log is off. The login app accepts without reading the login request. In the
  code flow and in refresh its access token is one by reference, so it signs once. Against it: it
  connects to PostgreSQL over TCP, as Keycloak does.
- In favour of Keycloak: tokens by client credentials and their introspection write nothing to its
  database.
- Possibly against Keycloak: all 32 callers refresh tokens of one session of one user, as with every
  server, and Keycloak keeps that session as a row. What a session for each caller gives was not
  measured.
- Against the other servers: gunicorn and Node with more processes do more per wall-clock second.
  Per CPU-second that changes little."""


if __name__ == "__main__":
    write()
