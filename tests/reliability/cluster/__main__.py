"""`make ha`: run the cluster of the guide on this machine, with the demo's app, until Ctrl-C."""

import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from bench.ports import free_port
from bench.processes import ended_together
from tests.reliability.cluster.machines import Cluster, Machine, cluster
from tests.stories.processes.serving import PASSWORD, REGISTER, SECRET

_EVERY = 0.5
_CALLBACK = "http://127.0.0.1:{port}/callback"


def main() -> None:
    """Run everything, and say who is the primary whenever that changes."""
    _say("Three machines, each with etcd, Patroni, PostgreSQL and HAProxy: about 20 seconds.")
    port = free_port()
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
        ctl = Path(sys.executable).with_name("patronictl")
        _say(f"\nLook on:   {ctl} -c {made.machines[0].folder / 'patroni.yml'} list")
        _watch(made, app)


def _watch(made: Cluster, app: "subprocess.Popen[bytes]") -> None:
    last_primary: Machine | None = None
    gone = 0.0
    while app.poll() is None:
        primary = made.primary()
        if primary is None:
            gone = gone or time.monotonic()
        elif primary is not last_primary:
            after = f", {time.monotonic() - gone:.1f} s later" if gone else ""
            _say(f"\nThe primary is {primary.name}{after}. To kill it:")
            with suppress(FileNotFoundError):
                pid = (primary.data / "postmaster.pid").read_text().split("\n", 1)[0]
                _say(f"  kill -9 {pid}")
            last_primary, gone = primary, 0.0
        time.sleep(_EVERY)


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    with ended_together():
        main()
