"""`python -m bench.peers`: Valetkey and its peers, visited in turn, on one core with the load.

What counts is operations per second of CPU of all processes of a server, its database included;
the median of the rounds. Each answer is checked.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import uvloop

from bench.load import Worker, measure
from bench.peers.node_peer import oidc_provider
from bench.peers.own_peer import valetkey
from bench.peers.peer import Flow, Peer, Rotation, document, introspection, machine, userinfo
from bench.peers.python_peer import django_oauth_toolkit

_CALLERS = 32
_SIGNED_IN = "openid notes:read"
_RESULTS = Path(__file__).parents[1] / "results"
Figures = dict[str, dict[str, list[float]]]


async def workloads(peer: Peer) -> Sequence[tuple[str, Sequence[Worker]]]:
    """Everything measured on one server, each with its callers."""

    def many(make: Callable[[], Worker]) -> Sequence[Worker]:
        return [make() for _ in range(_CALLERS)]

    first = [Flow(peer, peer.line(), _SIGNED_IN) for _ in range(_CALLERS)]
    await asyncio.gather(*(flow.step() for flow in first))
    rotating = [Rotation(peer, flow.connection, flow.tokens["refresh_token"]) for flow in first]
    # Of a flow that nobody goes on with: some servers end a token when its refresh token is used.
    apart = Flow(peer, peer.line(), _SIGNED_IN)
    await apart.step()
    token = apart.tokens["access_token"]
    asks = machine(peer, "reference")
    opaque = json.loads((await asks.connection.ask(asks.request)).body)["access_token"]
    return (
        (
            "client credentials, JWT",
            many(lambda: machine(peer, "jwt")) if "jwt" in peer.machine else (),
        ),
        ("client credentials, by reference", many(lambda: machine(peer, "reference"))),
        ("introspection, by reference", many(lambda: introspection(peer, opaque))),
        ("code + PKCE, with ID token", first),
        ("refresh with rotation", rotating),
        ("userinfo", many(lambda: userinfo(peer, token))),
        ("JWKS", many(lambda: document(peer, peer.paths.keys, b'"keys":'))),
        ("discovery", many(lambda: document(peer, peer.paths.discovery, b'"issuer":'))),
    )


async def compare(peers: Sequence[Peer], rounds: int, seconds: float) -> Figures:
    """Operations per CPU-second of each workload on each server, round by round."""
    plans = [(peer, await workloads(peer)) for peer in peers]
    figures: Figures = {}
    for place, (name, _) in enumerate(plans[0][1]):
        figures[name] = {peer.name: [] for peer in peers}
        for turn in range(rounds + 1):
            for peer, plan in plans:
                if not (workers := plan[place][1]):
                    continue
                before = peer.worked()
                measured = await measure(workers, seconds)
                # The first round warms up.
                if turn:
                    rate = measured.operations / (peer.worked() - before)
                    figures[name][peer.name].append(rate)
    return figures


def table(figures: Figures, peers: Sequence[Peer]) -> str:
    """The medians, and how many times each peer we are."""
    lines = ["".join([f"{'per CPU-second':36}", *(f"{peer.name:>30}" for peer in peers)])]
    for name, by_peer in figures.items():
        medians = [statistics.median(by_peer[peer.name] or [0]) for peer in peers]
        ratios = [f"{m:,.0f} (x {medians[0] / m:.2f})" if m else "-" for m in medians[1:]]
        own = f"{medians[0]:,.0f}"
        lines.append("".join([f"{name:36}{own:>30}", *(f"{text:>30}" for text in ratios)]))
    return "\n".join(lines)


def main() -> None:
    """Start all, measure in turn, print and keep the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each visit")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--redis", action="store_true", help="oidc-provider with Redis too")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack:
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))

        def folder() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))

        peers = [
            stack.enter_context(valetkey(folder())),
            stack.enter_context(oidc_provider(folder())),
            stack.enter_context(django_oauth_toolkit(folder())),
        ]
        if chosen.redis:
            peers += [
                stack.enter_context(oidc_provider(folder(), redis=keeps))
                for keeps in ("everysec", "always")
            ]
        figures = runner.run(compare(peers, chosen.rounds, chosen.seconds))
        memory = {peer.name: peer.memory() for peer in peers}
    print(table(figures, peers))
    print(f"\nMegabytes afterwards: {memory}")
    print("; ".join(dict.fromkeys(peer.versions for peer in peers)))
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, {platform.machine()}")
    _RESULTS.mkdir(exist_ok=True)
    (_RESULTS / "peers.json").write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
