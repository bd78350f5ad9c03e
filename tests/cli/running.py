"""Running the real program as a shell would."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAM = Path(sys.executable).with_name("valetkey")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def valetkey(
    *arguments: str, here: Path, typed: str = "", environment: dict[str, str] | None = None
) -> Ran:
    """Run `valetkey` with these arguments in the directory `here`, not on a terminal."""
    done = subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=here,
        input=typed,
        env={**clean_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def clean_environment() -> dict[str, str]:
    """This process's environment without settings that would change what a test sees."""
    return {name: value for name, value in os.environ.items() if not name.startswith("VALETKEY")}
