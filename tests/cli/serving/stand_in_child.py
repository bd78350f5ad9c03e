"""A child as the supervisor knows it, without a server inside. Arguments: how it behaves, its log.

A line of the log says which child was told what; tests read processes and order from it.
"""

import os
import signal
import socket
import sys
from pathlib import Path

behaviour, log, listening, control = sys.argv[1:]


def tell(text: str) -> None:
    with Path(log).open("a", encoding="utf-8") as file:
        file.write(f"{behaviour} {os.getpid()} {text}\n")


tell("born")
if behaviour == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
channel = socket.socket(fileno=int(control))
told = channel.recv(64).decode().strip()
tell(told)
if behaviour == "broken":
    sys.exit(2)
if "prepare" in told:
    channel.sendall(b"prepared\n")
server = socket.socket(fileno=int(listening))
server.listen()
tell("ready")
channel.sendall(b"ready\n")
while channel.recv(64):
    pass
tell("orphaned")
