"""The process that supervises. It took the place of `valetkey serve` once all was checked.

Like `supervise` it imports next to nothing: it is there for as long as the servers are.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from valetkey.cli.serving.places import Server
from valetkey.cli.serving.supervise import Supervisor
from valetkey.config.environment import environment

_GRACE = 15.0  # seconds for requests under way, beyond the drain


def main(descriptor: int) -> int:
    """Read the plan that comes by this descriptor, and carry it out. For the shell: how it went."""
    with os.fdopen(descriptor, "rb") as pipe:
        # Any: it was a Plan in this very process, a moment ago.
        plan: dict[str, Any] = json.load(pipe)

    def announce() -> None:
        for note in plan["notes"]:
            with suppress(OSError):
                file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(file, "w") as written:
                    written.write(f"{os.getpid()}\n")
        sys.stdout.write(f"{plan['ready']}\n")
        sys.stdout.flush()

    def recheck() -> Popen[bytes]:
        command = [sys.executable, "-P", "-m", "valetkey.cli.serving.recheck", plan["file"]]
        process = Popen(command, stdin=PIPE, process_group=0)
        if process.stdin is not None:
            # A few hundred bytes: less than any pipe holds before somebody reads.
            with process.stdin as pipe, suppress(OSError):
                pipe.write(json.dumps(plan["fixed"]).encode())
        return process

    supervisor = Supervisor(
        [_server(plan["file"], told) for told in plan["servers"]],
        announce,
        grace=plan["drain"] + _GRACE,
        level=plan["level"],
        style=plan["style"],
        recheck=recheck,
    )
    try:
        return supervisor.run()
    finally:
        for note in plan["notes"]:
            with suppress(OSError):
                Path(note).unlink()
        folder = Path(plan["folder"])
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def _server(file: str, told: Mapping[str, Any]) -> Server:
    """`told` is an Answering of the plan."""
    name = told["name"]
    given = {**environment(), **told["given"]}
    for withheld in told["withheld"]:
        given.pop(withheld, None)
    listening: Sequence[int] = told["listening"]
    # The supervisor passes them on to this server's workers alone.
    passed: Sequence[int] = told["passed"]
    for descriptor in (*listening, *passed):
        os.set_inheritable(descriptor, False)
    # -P: what lies in the working directory is nobody's module.
    command = (sys.executable, "-P", "-m", f"valetkey.cli.serving.{name}", file)
    return Server(name, command, listening, told["workers"], given, passed=passed, tls=told["tls"])


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
