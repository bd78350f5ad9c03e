"""The supervisor process. It replaces `valetkey serve` once the configuration was checked.

Like `supervise` it imports very little, because it runs as long as the servers do.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from valetkey.cli.serving.supervise import ServerProcesses, Supervisor
from valetkey.config.environment import environment

_GRACE = 15.0  # seconds for requests under way, beyond the drain


def main(descriptor: int) -> int:
    """Read the plan from pipe `descriptor` and carry it out; return the exit code."""
    with os.fdopen(descriptor, "rb") as pipe:
        # Any: it was written from a Plan by this very process.
        plan: dict[str, Any] = json.load(pipe)

    # Locked until this process ends in any way; no other process gets it.
    os.set_inheritable(plan["lock"], False)

    def announce() -> None:
        for note in plan["notes"]:
            with suppress(OSError):
                file = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                with os.fdopen(file, "w") as written:
                    written.write(f"{os.getpid()}\n")
        sys.stdout.write(f"{plan['ready']}\n")
        sys.stdout.flush()

    supervisor = Supervisor(
        [_server(plan["file"], server) for server in plan["servers"]],
        announce,
        grace=plan["drain"] + _GRACE,
        level=plan["level"],
        style=plan["style"],
        recheck=None if plan["several"] else partial(start_check, plan["file"], plan["fixed"]),
        terminal=plan["terminal"],
        passes_on=plan["several"],
    )
    try:
        return supervisor.run()
    finally:
        for note in plan["notes"]:
            remove_note(Path(note))
        folder = Path(plan["folder"])
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


def start_check(
    file: str, fixed: Mapping[str, str], variables: Mapping[str, str] | None = None
) -> Popen[bytes]:
    """Start the process that checks whether new workers can use the configuration in `file`.

    `fixed` are the settings that stay until a restart (see `recheck.fixed`). `variables` is its
    environment, by default that of this process.
    """
    command = [sys.executable, "-P", "-m", "valetkey.cli.serving.recheck", file]
    process = Popen(command, stdin=PIPE, env=variables, process_group=0)
    if process.stdin is not None:
        # A few hundred bytes: less than a pipe holds before it is read.
        with process.stdin as pipe, suppress(OSError):
            pipe.write(json.dumps(fixed).encode())
    return process


def remove_note(note: Path) -> None:
    """Remove the file with this process's id.

    While the last requests are answered the next supervisor may be ready: then the file is its.
    """
    with suppress(OSError):
        if note.read_text(encoding="ascii") == f"{os.getpid()}\n":
            note.unlink()


def _server(file: str, description: Mapping[str, Any]) -> ServerProcesses:
    """Return the Server of one entry of the plan."""
    name = description["name"]
    variables = {**environment(), **description["environment"]}
    for withheld in description["withheld"]:
        variables.pop(withheld, None)
    listening: Sequence[int] = description["listening"]
    # The supervisor passes these descriptors to this server's workers only.
    passed: Sequence[int] = description["passed"]
    for descriptor in (*listening, *passed):
        os.set_inheritable(descriptor, False)
    # -P: no module is imported from the working directory.
    command = (sys.executable, "-P", "-m", f"valetkey.cli.serving.{name}", file)
    return ServerProcesses(
        name,
        command,
        listening,
        description["workers"],
        variables,
        passed=passed,
        tls=description["tls"],
        silent=description["silent"],
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
