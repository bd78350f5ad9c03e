"""`python -m bench.claims`: what a second API, groups and declared claims cost.

Two servers of the same source are visited in turn: one whose tokens are for the default API and
hold what the protocol requires, and one whose tokens are for a declared API and whose users have
groups, a role and three declared claims, in access tokens and ID tokens. The figure is the median
of the ratios of their CPU time per operation, visit by visit: 1.10 is the most that is owed.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import uvloop

from bench.load import measure
from bench.peers.own_peer import valetkey
from bench.peers.peer import Peer
from bench.peers.work import FLOW, INTROSPECTION, JWT, REFERENCE, REFRESH, plan
from bench.processes import ended_together
from bench.servers import REGISTER

_API = "https://calendar.example/api"
_MEMBER = 'username = "ada"\nattributes = { department = "physics" }'
_MACHINE = 'grant_types = ["client_credentials"]\nscopes = ["calendar:sync"]'
_DECLARED = f"""
[[attributes]]
name = "department"
label = "Department"
schema = {{ type = "string" }}

[[apis]]
identifier = "{_API}"
name = "Calendar"
scopes = {{ "calendar:read" = "see your calendar" }}
machine_scopes = ["calendar:sync"]
roles = ["editor"]

[[groups]]
name = "staff"

[[groups]]
name = "team-night"
parent = "staff"
members = ["ada"]

[[roles]]
api = "{_API}"
role = "editor"
groups = ["staff"]

[[claims]]
name = "department"
from = "attribute:department"
in = ["id_token", "userinfo", "access_token"]

[[claims]]
name = "teams"
from = "groups:team-"
in = ["id_token", "userinfo", "access_token"]

[[claims]]
name = "tenant"
from = "constant:eu"
in = ["id_token", "userinfo", "access_token"]
"""
_SCOPE = "openid groups calendar:read"


def declared(directory: Path, *, on_postgresql: bool) -> AbstractContextManager[Peer]:
    """Start a server whose tokens are for a declared API and hold groups, roles and claims."""
    return valetkey(
        directory, on_postgresql=on_postgresql, register=_register(), resource=_API, scope=_SCOPE
    )


def _register() -> str:
    """Return the bench's register with the declarations, and clients that use them."""
    changed = REGISTER
    for before, after in (
        ('username = "ada"', _MEMBER),
        ('grant_types = ["client_credentials"]', _MACHINE),
        ('scopes = ["openid", "notes:read"]', 'scopes = ["openid", "groups"]'),
    ):
        assert before in changed
        changed = changed.replace(before, after)
    return _DECLARED + changed


def main() -> None:
    """Start both, measure in turn, print a line for each workload."""
    parser = argparse.ArgumentParser(prog="python -m bench.claims", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.7, help="for each visit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--postgresql", action="store_true")
    chosen = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with ExitStack() as stack, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        def folder() -> Path:
            return Path(stack.enter_context(tempfile.TemporaryDirectory()))

        peers = [
            stack.enter_context(valetkey(folder(), on_postgresql=chosen.postgresql)),
            stack.enter_context(declared(folder(), on_postgresql=chosen.postgresql)),
        ]
        plans = [runner.run(plan(peer)) for peer in peers]
        print(f"{'microseconds of CPU per operation':36}{'without':>10}{'with':>10}{'ratio':>8}")
        for workload in (JWT, REFERENCE, FLOW, REFRESH, INTROSPECTION):
            costs: list[list[float]] = [[], []]
            for turn in range(chosen.rounds + 1):
                for peer, planned, peer_costs in zip(peers, plans, costs, strict=True):
                    had = peer.worked()
                    done = runner.run(measure(planned[workload], chosen.seconds))
                    if turn:
                        peer_costs.append(1e6 * (peer.worked() - had) / done.operations)
            without, with_claims = (statistics.median(microseconds) for microseconds in costs)
            pairs = zip(*costs, strict=True)
            ratio = statistics.median(after / before for before, after in pairs)
            print(f"{workload:36}{without:10,.0f}{with_claims:10,.0f}{ratio:8.2f}", flush=True)


if __name__ == "__main__":
    with ended_together():
        main()
