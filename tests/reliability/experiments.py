"""The experiments themselves: each takes how often, and says what came of it."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

from bench.ports import free_port
from tests.reliability.acknowledged.aborts import aborted_transactions
from tests.reliability.acknowledged.backups import backups_under_load
from tests.reliability.acknowledged.everything import killed_everything
from tests.reliability.acknowledged.failover import asynchronous_failover, failover
from tests.reliability.acknowledged.second_place import burnt_machines
from tests.reliability.acknowledged.workers import killed_workers, killed_workers_on_postgres
from tests.reliability.acme import certificates
from tests.reliability.broken_servers import broken_servers
from tests.reliability.changes import no_failure, replaced, wait_for_more
from tests.reliability.clock_jumps import clock_jumps, clock_jumps_on_postgres, skewed_nodes
from tests.reliability.cluster.experiments import CLUSTER
from tests.reliability.cluster.upgrades import (
    major_upgrades_of_postgresql,
    rolling_upgrades_behind_haproxy,
)
from tests.reliability.credentials import rotated_credentials
from tests.reliability.derived import DERIVED
from tests.reliability.faults.exhaustion import exhausted_resources
from tests.reliability.faults.full_disk import full_disk, full_log_disk
from tests.reliability.faults.outages import outages
from tests.reliability.floods.anonymous_growth import anonymous_growth
from tests.reliability.floods.overload import overload
from tests.reliability.floods.password_flood import password_flood
from tests.reliability.floods.slow_clients import slow_clients
from tests.reliability.load import asking
from tests.reliability.nodes import DRAIN, Node, configure, register, stopped_in_the_end
from tests.reliability.outcome import Outcome
from tests.reliability.pair import two_nodes
from tests.reliability.revocation import revocation_everywhere, revocation_without_stream
from tests.reliability.sync import sync_before_answer
from tests.reliability.tables.expiry import bounded_tables
from tests.reliability.upgrade import rolling_upgrades
from tests.reliability.virtual_day import soak
from tests.reliability.webhooks import webhook_delivery
from tests.support import postgres
from tests.support.wait import wait_until


def rolling_restarts(folder: Path, times: int, chance: random.Random) -> Outcome:
    """Two nodes on one PostgreSQL behind nginx, restarted in turn under load."""
    with two_nodes(folder) as (nodes, load):
        for number in range(times):
            wait_for_more(load)
            nodes[number % 2].stop()
            nodes[number % 2].start()
        wait_for_more(load)
    return no_failure("E28 rolling restarts through nginx", f"{times} restarts of two nodes", load)


def restarts_on_a_kept_socket(folder: Path, times: int, chance: random.Random) -> Outcome:
    """One node whose socket a service manager keeps, restarted while clients keep connections."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        node = Node(folder / "node", listening)
        node.drain = DRAIN
        configure(
            node.here, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db"
        )
        register(node.here)
        with stopped_in_the_end(node):
            node.start()
            with asking(address, address) as load:
                for _ in range(times):
                    wait_for_more(load)
                    node.stop()
                    node.start()
                wait_for_more(load)
    return no_failure(
        "E28 restarts of one node, socket activation", f"{times} restarts, direct clients", load
    )


def reloads(folder: Path, times: int, chance: random.Random) -> Outcome:
    """One node with two workers that reads its configuration again under load."""
    address = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    configure(node.here, url=f"http://{address}", listen=address, database="sqlite:///a/auth.db")
    file = node.here / "valetkey.toml"
    file.write_text(file.read_text().replace("[tokens]", "workers = 2\n[tokens]", 1))
    register(node.here)
    with stopped_in_the_end(node):
        node.start()
        with asking(address, address) as load:
            for _ in range(times):
                wait_for_more(load)
                before = set(node.workers())
                assert node.process is not None
                node.process.send_signal(signal.SIGHUP)
                wait_until(lambda before=before: replaced(node, before))  # type: ignore[misc]
            wait_for_more(load)
    return no_failure("E33 reloads under load", f"{times} reloads of two workers", load)


_FROZEN_TIMEOUTS = (
    '[database]\nanswer_timeout = "2s"\nstatement_timeout = "1s"\nlock_timeout = "1s"\n'
    'connect_timeout = "2s"\n'
)


def frozen_database(folder: Path, times: int, chance: random.Random) -> Outcome:
    """PostgreSQL stopped by SIGSTOP under load, and continued."""
    address = f"127.0.0.1:{free_port()}"
    node = Node(folder / "node")
    recovered: list[float] = []
    with postgres.own_server() as server:
        url = postgres.url(server, "postgres")
        configure(
            node.here, url=f"http://{address}", listen=address, database=url, more=_FROZEN_TIMEOUTS
        )
        register(node.here)
        with stopped_in_the_end(node):
            node.start()
            with asking(address, address) as load:
                for _ in range(times):
                    wait_for_more(load)
                    with frozen(server / "data"):
                        refused = load.answers["503"]
                        wait_until(lambda refused=refused: load.answers["503"] > refused + 8)  # type: ignore[misc]
                    began, good = time.monotonic(), load.answers["200"]
                    wait_until(lambda good=good: load.answers["200"] > good)  # type: ignore[misc]
                    recovered.append(time.monotonic() - began)
    held = set(load.answers) <= {"200", "503"} and load.longest < 2 * 2 + 2
    counts = (
        f"{times} freezes, {load.answers['503']} answers 503, longest answer {load.longest:.1f} s, "
        f"well again after {max(recovered):.1f} s at most"
    )
    promise = "503 within database.answer_timeout (2 s here), recovery by itself"
    return Outcome("Frozen PostgreSQL", promise, counts, held and max(recovered) < 5)


@contextmanager
def frozen(data: Path) -> Generator[None]:
    """Every process of the PostgreSQL in `data` stands still for as long as this lasts."""
    everything = postgres.processes(data)
    for pid in everything:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in reversed(everything):
            os.kill(pid, signal.SIGCONT)


Experiment = Callable[[Path, int, random.Random], Outcome]

EXPERIMENTS: Mapping[Experiment, tuple[int, int]] = MappingProxyType(
    {
        killed_workers: (6, 1_000),
        killed_workers_on_postgres: (3, 1_000),
        killed_everything: (1, 50),
        rolling_restarts: (1, 20),
        rolling_upgrades: (0, 5),
        rolling_upgrades_behind_haproxy: (0, 4),
        major_upgrades_of_postgresql: (0, 3),
        restarts_on_a_kept_socket: (1, 20),
        reloads: (1, 20),
        frozen_database: (1, 20),
        rotated_credentials: (1, 20),
        certificates: (0, 10),
        sync_before_answer: (50, 10_000),
        webhook_delivery: (2, 200),
        outages: (0, 12),
        soak: (1, 48),
        bounded_tables: (1, 500),
        full_disk: (2, 10),
        full_log_disk: (1, 10),
        failover: (1, 20),
        asynchronous_failover: (1, 20),
        clock_jumps: (1, 20),
        clock_jumps_on_postgres: (1, 20),
        skewed_nodes: (2, 100),
        aborted_transactions: (5, 200),
        backups_under_load: (1, 10),
        burnt_machines: (1, 10),
        anonymous_growth: (2_000, 500_000),
        exhausted_resources: (1, 8),
        slow_clients: (30, 2_000),
        overload: (2, 120),
        password_flood: (1, 30),
        revocation_everywhere: (1, 100),
        revocation_without_stream: (1, 100),
        broken_servers: (0, 3),
        **CLUSTER,
        **{experiment: (0, times) for experiment, times in DERIVED.items()},
    }
)
"""Each experiment, how often in the tests and how often in `make reliability`; 0: not there."""
