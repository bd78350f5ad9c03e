"""`make ha`: run the cluster of the guide on this machine, with the demo's app, until Ctrl-C."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from bench.ports import free_port
from bench.processes import ended_together
from tests.reliability.cluster.faults import serves
from tests.reliability.cluster.machines import Cluster, Machine, cluster
from tests.reliability.nodes import Node
from tests.stories.processes.serving import PASSWORD, REGISTER, SECRET

_EVERY = 0.2
_CALLBACK = "http://127.0.0.1:{port}/callback"


def main() -> None:
    """Run everything, and say who is the primary whenever that changes."""
    _say("Three machines, each with etcd, Patroni, PostgreSQL and HAProxy: about 20 seconds.")
    port = free_port()
    Node.as_installed = True
    with cluster(namespaces=False) as made:
        _say("Two nodes of Valetkey: about 10 seconds.")
        callback = f"{_CALLBACK.format(port=port)}"
        made.start_nodes(REGISTER.replace("https://app.example/cb", callback, 1))
        app = subprocess.Popen(
            (
                *(sys.executable, "-m", "valetkey.cli.demo.notes_printer"),
                *("--auth-url", made.url, "--api-url", made.api),
                *("--client-id", "printer", "--port", str(port)),
            ),
            env={**os.environ, "CLIENT_SECRET": SECRET},
            stdout=subprocess.DEVNULL,
        )
        _say(f"\nReady. Open http://127.0.0.1:{port}, connect, and sign in:")
        _say(f'  user name "ada", password "{PASSWORD}"\n')
        for machine in made.machines:
            _say(f"  {machine.name}  {machine.address}:5432  {machine.data}")
        for node in made.nodes:
            assert node.process is not None
            _say(f"  a node of Valetkey  {node.here}  process {node.process.pid}")
        programs = Path(sys.executable).parent
        _say(f"\nPostgreSQL: {programs}/patronictl -c {made.machines[0].folder}/patroni.yml list")
        _say(f"Valetkey:   cd {made.nodes[0].here}; {programs}/valetkey doctor")
        _say(f"Console:    {programs}/valetkey owner, in that folder")
        _say(f"Nodes:      kill stops one; {programs}/valetkey serve, in its folder, starts it")
        _watch(made, app)


def _watch(made: Cluster, app: "subprocess.Popen[bytes]") -> None:
    last_primary: Machine | None = None
    failing_since = 0.0
    while app.poll() is None:
        if not serves(made):
            failing_since = failing_since or time.monotonic()
        elif failing_since:
            _say(f"\nReady again: writes failed for {time.monotonic() - failing_since:.1f} s.")
            failing_since = 0.0
        primary = made.primary()
        if primary is not None and primary is not last_primary:
            _say(f"\nThe primary is {primary.name}. To kill it:")
            with suppress(FileNotFoundError):
                pid = (primary.data / "postmaster.pid").read_text().split("\n", 1)[0]
                _say(f"  kill -9 {pid}")
            last_primary = primary
        time.sleep(_EVERY)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with ended_together():
        main()
