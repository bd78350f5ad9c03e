"""A child as the supervisor knows it, without a server inside. Arguments: how it behaves, its log.

A line of the log says which child was told what; tests read processes and order from it.
"""

import os
import signal
import socket
import sys
import time
from pathlib import Path

from valetkey.cli.serving.worker import await_fork

behaviour, log, listening, control = sys.argv[1:]


def tell(text: str) -> None:
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{behaviour} {os.getpid()} {text}\n")


own = await_fork(int(control))
if own is None:
    sys.exit(0)
before = Path(log).read_text(encoding="utf-8") if Path(log).exists() else ""
tell("born")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
channel = socket.socket(fileno=own.channel)
channel.sendall(b"born %d\n" % os.getpid())
message = channel.recv(64).decode().strip()
tell(message)
if behaviour == "broken" or (behaviour == "frail" and "frail" in before):
    sys.exit(2)
while behaviour == "held" and Path(f"{log}.hold").exists():
    time.sleep(0.02)
if "prepare" in message:
    channel.sendall(b"prepared\n")
server = socket.socket(fileno=int(listening))
server.listen()
tell(f"port {server.getsockname()[1]}")
tell("ready")
channel.sendall(b"ready\n")
while channel.recv(64):
    pass
tell("orphaned")
