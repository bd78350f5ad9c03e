"""The cluster of deploy/ha on one machine: on loopback, or each in a network namespace of its own.

The configuration files are those of the guide; only addresses, folders and passwords differ.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import requests
import yaml

from bench.ports import free_port
from tests.architecture.tree import ROOT
from tests.reliability.faults.full_disk import mounted_at
from tests.reliability.nodes import Node
from tests.support import postgres
from tests.support.wait import wait_until

FILES = ROOT / "deploy/ha"
_EXAMPLES = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
OWNER = "change-this-1"
PASSWORD = "a-password-of-valetkey"
# The interpreter of this run may be in a folder that only root can read.
_AS = (
    "setpriv",
    "--clear-groups",
    "--inh-caps",
    "+dac_override",
    "--ambient-caps",
    "+dac_override",
)
_PORTS = (8400, 8401)
_FULL_DISK = "full_disk.sh"
_TO_NODE = """
listen node{port}
    mode tcp
    bind {address}:{port}
    server node 127.0.0.1:1{port}
"""
_PATIENCE = 2.0  # seconds for an answer of Patroni


class Machine:
    """One of the three: its processes, which can be killed, frozen and cut off."""

    def __init__(self, number: int, address: str, folder: Path, namespace: str) -> None:
        """Start nothing yet; without a `namespace` it is an address of the loopback interface."""
        self.name = f"machine{number}"
        self.address = address
        self.folder = folder
        self.namespace = namespace
        self.programs: Path | None = None
        """Other programs of PostgreSQL than the installed ones."""
        self.disk = folder / "disk"
        self.data = self.disk / "postgresql"
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def command(self, user: str | None = None) -> Sequence[str]:
        """Return what runs a program on this machine, as another user if root runs this."""
        inside = ("nsenter", f"--net=/run/netns/{self.namespace}") if self.namespace else ()
        return (*inside, *_AS, "--reuid", user, "--regid", user) if user else inside

    def start(self, program: str, *arguments: str, user: str | None = None) -> None:
        """Start a program that is then known by its name."""
        with (self.folder / f"{Path(program).name}.log").open("ab") as log:
            self._running[Path(program).name] = subprocess.Popen(
                (*self.command(user), program, *arguments),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill(self, *programs: str) -> None:
        """Kill -9 of these programs, and of PostgreSQL if Patroni is one of them."""
        self.signal(signal.SIGKILL, *programs, *(["postgresql"] if "patroni" in programs else []))
        for name in programs:
            if (process := self._running.pop(name, None)) is not None:
                process.wait()

    def end(self, name: str) -> None:
        """End a program in order; Patroni ends PostgreSQL."""
        process = self._running.pop(name)
        process.terminate()
        process.wait(60)

    def signal(self, number: signal.Signals, *programs: str) -> None:
        """Send a signal to these programs, or to all; "postgresql" is all processes of it."""
        names = programs or (*self._running, "postgresql")
        pids = [process.pid for name, process in self._running.items() if name in names]
        for pid in (*pids, *(self.database() if "postgresql" in names else ())):
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def database(self) -> Sequence[int]:
        """Return the processes of PostgreSQL; none if it does not run."""
        with suppress(FileNotFoundError, ProcessLookupError):
            return postgres.processes(self.data)
        return ()

    def patroni(self, path: str) -> Mapping[str, Any]:
        """Return what Patroni's API answers; nothing without an answer."""
        with suppress(requests.RequestException, ValueError):
            url = f"http://{self.address}:8008{path}"
            answer: Mapping[str, Any] = requests.get(url, timeout=_PATIENCE).json()
            return answer
        return {}

    def is_primary(self) -> bool:
        """Return whether it says that it is the primary."""
        status = self.patroni("/patroni")
        return status.get("role") == "primary" and status.get("state") == "running"


class Cluster:
    """Three machines, two nodes of Valetkey on the first two, and a load balancer before them."""

    def __init__(
        self, folder: Path, *, namespaces: bool, synchronous: bool = True, disk: str = ""
    ) -> None:
        """Start nothing yet. `namespaces` need root and the program `ip`.

        A commit waits for a standby if it is `synchronous`. `disk` is the size of a disk in memory
        for each PostgreSQL, which needs root.
        """
        self.folder = folder
        self.synchronous = synchronous
        self._disk = disk
        self.namespaces = namespaces
        self.user = postgres.unprivileged()
        self._front_hosts = tuple(f"localhost:{free_port()}" for _ in range(2))
        self.url, self.api = (f"http://{host}" for host in self._front_hosts)
        self._unique = f"vk{os.getpid() % 100_000}"
        self._links: dict[str, str] = {}
        self._balancer: subprocess.Popen[bytes] | None = None
        self.machines = [self._machine(number) for number in (1, 2, 3)]
        self.nodes = [Node(folder / f"node{number}", server=None) for number in (1, 2)]
        for node, machine in zip(self.nodes, self.machines, strict=False):
            node.under = machine.command()

    def _machine(self, number: int) -> Machine:
        folder = self.folder / f"machine{number}"
        (folder / "disk").mkdir(parents=True)
        self._give(folder)
        self._give(folder / "disk")
        if self.namespaces:
            return Machine(number, f"10.77.0.{number}", folder, f"{self._unique}-{number}")
        return Machine(number, f"127.0.77.{number}", folder, "")

    def _give(self, folder: Path) -> None:
        """Make the folder that of the user of PostgreSQL."""
        if self.user is not None:
            shutil.chown(folder, self.user)

    @contextmanager
    def running(self) -> Generator[None]:
        """Run everything but Valetkey's nodes until the block ends."""
        with ExitStack() as stack:
            if self.namespaces:
                stack.callback(self._disconnect)
                self._connect()
            for machine in self.machines if self._disk else ():
                stack.enter_context(mounted_at(machine.disk, self._disk))
                self._give(machine.disk)
            stack.callback(self._stop)
            for machine in self.machines:
                self.start_machine(machine)
                self._watch_disk(machine)
            wait_until(self.is_whole, "the cluster is not complete", every=0.2)
            self._make_databases()
            self._configure()
            self._balance()
            yield

    def start_machine(self, machine: Machine) -> None:
        """Start etcd, Patroni and the way to the primary, with the files of the guide."""
        self.write(machine)
        self.start_etcd(machine)
        self.start_patroni(machine)
        machine.start(program("haproxy"), "-f", "haproxy.cfg", "-db")

    def start_etcd(self, machine: Machine) -> None:
        """Start etcd."""
        machine.start(program("etcd"), "--config-file", "etcd.yml", user=self.user)

    def start_patroni(self, machine: Machine) -> None:
        """Start Patroni, which starts PostgreSQL."""
        patroni = str(Path(sys.executable).with_name("patroni"))
        machine.start(patroni, "patroni.yml", user=self.user)

    def _watch_disk(self, machine: Machine) -> None:
        """Start what has a standby take over when the disk is full."""
        patronictl = str(Path(sys.executable).with_name("patronictl"))
        script = machine.folder / _FULL_DISK
        script.write_text((FILES / _FULL_DISK).read_text().replace("patronictl", patronictl))
        script.chmod(0o755)
        # The rounds of an experiment follow each other in less than the usual ten minutes.
        machine.start(str(script), "patroni.yml", "0.1", user=self.user)

    def primary(self) -> Machine | None:
        """Return the machine that says that it is the primary."""
        return next((machine for machine in self.machines if machine.is_primary()), None)

    def the_primary(self) -> Machine:
        """Wait for a primary."""
        machine = wait_until(self.primary, "there is no primary", every=0.2)
        assert machine is not None
        return machine

    def is_whole(self) -> bool:
        """Return whether both standbys stream from the primary and a commit waits for them."""
        primary = self.primary()
        if primary is None:
            return False
        members = primary.patroni("/cluster").get("members", [])
        standby = "quorum_standby" if self.synchronous else "replica"
        roles = sorted(member["role"] for member in members)
        return roles == ["leader", standby, standby] and all(
            member["state"] in {"running", "streaming"} for member in members
        )

    def tell(self, machine: Machine, path: str, body: Mapping[str, object], verb: str) -> int:
        """Send a command to Patroni; return the status of its answer."""
        url = f"http://{machine.address}:8008{path}"
        return requests.request(verb, url, json=body, timeout=60).status_code

    def switch_over(self) -> None:
        """Have a standby become the primary, in order."""
        primary = self.the_primary()
        body = {"leader": primary.name}
        wait_until(
            lambda: self.tell(primary, "/switchover", body, "POST") == requests.codes.ok,
            "the switchover is refused",
            every=0.5,
        )

    def cut(self, machine: Machine) -> None:
        """Cut the machine off from all others, its node included."""
        _ip("link", "set", self._links[machine.name], "down")

    def join(self, machine: Machine) -> None:
        """Connect it again."""
        _ip("link", "set", self._links[machine.name], "up")

    def administrator(self, machine: Machine) -> psycopg.Connection:
        """Connect to the PostgreSQL of a machine."""
        return psycopg.connect(
            host=machine.address,
            user="postgres",
            password=OWNER,
            dbname="postgres",
            autocommit=True,
            connect_timeout=5,
        )

    def write(self, machine: Machine) -> None:
        """Write the files of the guide for this machine."""
        etcd = yaml.safe_load(self._addressed("etcd.yml"))
        first = self.machines[0].address
        for key, value in etcd.items():
            if key.startswith(("listen-", "initial-advertise-", "advertise-")):
                etcd[key] = value.replace(first, machine.address)
        etcd |= {"name": machine.name, "data-dir": str(machine.folder / "etcd"), "logger": "zap"}
        (machine.folder / "etcd.yml").write_text(yaml.safe_dump(etcd))
        patroni = yaml.safe_load(self._addressed("patroni.yml"))
        patroni["name"] = machine.name
        patroni["restapi"] = dict.fromkeys(("listen", "connect_address"), f"{machine.address}:8008")
        programs = postgres.binaries()
        assert programs is not None, "PostgreSQL is missing: apt-get install postgresql-15"
        patroni["postgresql"] |= {
            "listen": f"{machine.address}:5432",
            "connect_address": f"{machine.address}:5432",
            "data_dir": str(machine.data),
            "bin_dir": str(machine.programs or programs),
            "pgpass": str(machine.folder / "pgpass"),
            "parameters": {"unix_socket_directories": str(machine.folder)},
        }
        patroni["postgresql"]["pg_hba"].append("host all all 127.0.0.0/8 scram-sha-256")
        patroni["postgresql"]["pg_hba"].append(
            "host replication replicator 127.0.0.0/8 scram-sha-256"
        )
        # A commit of a test run waits for processes, not for a power cut.
        settings = patroni["bootstrap"]["dcs"]
        settings["postgresql"]["parameters"]["shared_buffers"] = "32MB"
        if not self.synchronous:
            settings["synchronous_mode"] = False
        (machine.folder / "patroni.yml").write_text(yaml.safe_dump(patroni))
        own = self._addressed("haproxy-postgresql.cfg").replace(
            "127.0.0.1:5000", f"{self.way(machine)}:5000"
        )
        if self.namespaces:
            front = self._front()
            own += front[front.index("\nfrontend ") :]
            # A node that other machines can reach would need TLS, which is not what is tried here.
            own += "".join(_TO_NODE.format(address=machine.address, port=port) for port in _PORTS)
        (machine.folder / "haproxy.cfg").write_text(own)

    def way(self, machine: Machine) -> str:
        """Return the address of the machine's own way to the primary."""
        return "127.0.0.1" if self.namespaces else machine.address

    def _addressed(self, name: str) -> str:
        text = (FILES / name).read_text()
        for example, machine in zip(_EXAMPLES, self.machines, strict=True):
            text = text.replace(f"{example}:", f"{machine.address}:")
        return text.replace("10.0.0.0/24", "10.77.0.0/24")

    def _front(self) -> str:
        text = self._addressed("haproxy.cfg")
        for name, host in zip(
            ("auth.example.com", "api.example.com"), self._front_hosts, strict=True
        ):
            text = text.replace(name, host)
        bind = next(line for line in text.split("\n") if line.strip().startswith("bind "))
        ports = (f"    bind 127.0.0.1:{host.rpartition(':')[2]}" for host in self._front_hosts)
        return text.replace(bind, "\n".join(ports))

    def _balance(self) -> None:
        file = self.folder / "haproxy.cfg"
        file.write_text(self._front())
        with (self.folder / "haproxy.log").open("ab") as log:
            self._balancer = subprocess.Popen(
                (program("haproxy"), "-f", str(file), "-db"), stdout=log, stderr=log
            )

    def _make_databases(self) -> None:
        with self.administrator(self.the_primary()) as raw:
            raw.execute(f"CREATE ROLE valetkey LOGIN PASSWORD '{PASSWORD}'".encode())
            raw.execute(b"GRANT pg_monitor TO valetkey")
            for name in ("authorization", "resource"):
                raw.execute(f'CREATE DATABASE "{name}" OWNER valetkey'.encode())

    def _database_url(self, machine: Machine, name: str) -> str:
        """Return how the node of a machine reaches a database of the primary."""
        return f"postgresql://valetkey:{PASSWORD}@{self.way(machine)}:5000/{name}"

    def _configure(self) -> None:
        """Configure both nodes; the second gets the keys of the first, as the guide says."""
        for node, machine in zip(self.nodes, self.machines, strict=False):
            node.here.mkdir()
            file = node.here / "valetkey.toml"
            # It contains passwords.
            file.touch(mode=0o600)
            file.write_text(
                f'[authorization]\nurl = "{self.url}"\nlisten = "{self._listen(machine, 8400)}"\n'
                f'database = "{self._database_url(machine, "authorization")}"\n'
                f'keyring = "valetkey.keyring"\n'
                f'[resource]\nurl = "{self.api}"\nlisten = "{self._listen(machine, 8401)}"\n'
                f'database = "{self._database_url(machine, "resource")}"\n'
                f'credential = "resource-server.credential"\n'
                f"revocations_max_age = 5\n"
                f'[tokens]\nsigning_algorithms = ["ES256"]\n[log]\nlevel = "warning"\n'
            )

    def _listen(self, machine: Machine, port: int) -> str:
        return f"127.0.0.1:1{port}" if self.namespaces else f"{machine.address}:{port}"

    def start_nodes(self, prepare: str = "") -> None:
        """Start both nodes; `prepare` is a file of objects that is applied before."""
        first, second = self.nodes
        if prepare:
            file = first.here / "register.toml"
            file.touch(mode=0o600)
            file.write_text(prepare)
            self.run("apply", "register.toml", "--yes")
        first.start()
        for name in ("valetkey.keyring", "resource-server.credential"):
            shutil.copy2(first.here / name, second.here / name)
        second.start()

        def answers() -> bool:
            assert self._balancer is not None
            assert self._balancer.poll() is None, (self.folder / "haproxy.log").read_text()
            with suppress(requests.RequestException):
                return all(
                    requests.get(f"{url}/health/ready", timeout=_PATIENCE).ok
                    for url in (self.url, self.api)
                )
            return False

        wait_until(answers, "the load balancer finds no node", every=0.2)

    def run(self, *arguments: str) -> None:
        """Run a command of Valetkey on the first machine, in the version of its node."""
        node = self.nodes[0]
        command = str(Path(sys.executable).with_name("valetkey"))
        subprocess.run(
            (*node.under, command, *arguments),
            cwd=node.here,
            env=node.variables(),
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def _stop(self) -> None:
        for node in self.nodes:
            with suppress(AssertionError, subprocess.TimeoutExpired):
                node.stop()
        if self._balancer is not None:
            self._balancer.terminate()
            self._balancer.wait()
        for machine in self.machines:
            machine.signal(signal.SIGCONT)
            machine.kill(_FULL_DISK, "patroni", "haproxy", "etcd")
        # What was just being started has no file with its number yet.
        for pid in _processes_in(self.folder):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _connect(self) -> None:
        """Make a bridge, and for each machine a namespace with an interface on it."""
        _ip("link", "add", self._unique, "type", "bridge")
        _ip("addr", "add", "10.77.0.254/24", "dev", self._unique)
        _ip("link", "set", self._unique, "up")
        for number, machine in enumerate(self.machines, 1):
            outer, space = f"{self._unique}v{number}", machine.namespace
            self._links[machine.name] = outer
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._unique, "up")
            _ip("-n", space, "addr", "add", f"{machine.address}/24", "dev", "eth0")
            _ip("-n", space, "link", "set", "eth0", "up")
            _ip("-n", space, "link", "set", "lo", "up")

    def _disconnect(self) -> None:
        for machine in self.machines:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", machine.namespace)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", self._unique)


def program(name: str) -> str:
    """Return the path of a program. Raises RuntimeError with the package that has it."""
    path = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    if path is None:
        package = {"etcd": "etcd-server"}.get(name, name)
        raise RuntimeError(f"{name} is missing: apt-get install {package}")
    return path


def _processes_in(folder: Path) -> Sequence[int]:
    """Return the processes whose commands name this folder."""
    processes: list[int] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if os.fsencode(folder) in file.read_bytes():
                processes.append(int(file.parent.name))
    return processes


def _ip(*arguments: str) -> None:
    subprocess.run((program("ip"), *arguments), check=True, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(*, namespaces: bool, synchronous: bool = True, disk: str = "") -> Generator[Cluster]:
    """Make a cluster in a folder that goes with it, and run it without Valetkey's nodes."""
    with tempfile.TemporaryDirectory(prefix="vk-ha-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        made = Cluster(folder, namespaces=namespaces, synchronous=synchronous, disk=disk)
        with made.running():
            yield made
