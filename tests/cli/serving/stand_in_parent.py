"""A supervisor over stand-in children. Arguments: the log, then server=behaviour=workers each."""

import os
import socket
import sys
from pathlib import Path
from subprocess import Popen

from valetkey.cli.serving.supervise import ServerProcesses, Supervisor, collect_orphans

CHILD = Path(__file__).with_name("stand_in_child.py")


def server(log: str, described: str) -> ServerProcesses:
    name, behaviour, workers = described.split("=")
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    program = Path(f"{log}.program")
    program.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    program.chmod(0o700)
    command = (str(program), str(CHILD), behaviour, log)
    # The children import what their supervisor does, also from another source tree.
    environment = {"PATH": "/bin", "PYTHONPATH": os.pathsep.join(sys.path)}
    return ServerProcesses(name, command, [listening.detach()], int(workers), environment)


def announce() -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()


if __name__ == "__main__":
    collect_orphans()
    supervisor = Supervisor(
        [server(sys.argv[1], described) for described in sys.argv[2:]],
        announce,
        grace=0.5,
        first_delay=0.01,
        recheck=lambda: Popen(["/usr/bin/touch", f"{sys.argv[1]}.checked"]),
    )
    sys.exit(supervisor.run())
