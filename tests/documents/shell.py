"""A terminal: runs the blocks of a page one after the other, as somebody who reads it would."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.documents.pages import Block
from tests.support.wait import CEILING

_SECONDS = CEILING
_OURS = Path(sys.executable).parent
_KEEP = """
for name in ANSWER CODE DEVICE_CODE TOKEN; do printf '%s=%s\\0' "$name" "${!name-}"; done > "$1"
"""


@dataclass(slots=True)
class Terminal:
    """A folder and what the shell remembers between two blocks.

    `instead` says what this test has in place of what the page names, such as other ports.
    `programs` has the commands, without the checkout's modules if it is another environment.
    """

    folder: Path
    instead: dict[str, str] = field(default_factory=dict[str, str])
    programs: Path = _OURS
    _variables: dict[str, str] = field(default_factory=dict[str, str])

    def write(self, block: Block) -> None:
        """Write a block to the file that its first line names."""
        (self.folder / block.title).write_text(self.adapted(block.code))

    def run(self, code: str) -> str:
        """What the block prints; every command in it must succeed."""
        kept = self.folder / ".variables"
        script = f"set -eu\n{self.adapted(code)}\n{_KEEP}"
        done = subprocess.run(
            ["bash", "-c", script, "page", str(kept)],
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        self._remember(kept)
        return done.stdout

    def start(self, command: str) -> subprocess.Popen[str]:
        """A command that stays; whoever starts it stops it."""
        return subprocess.Popen(
            self.adapted(command).split(),
            cwd=self.folder,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def adapted(self, text: str) -> str:
        """The text with what this test has in place of what the page names."""
        for named, ours in self.instead.items():
            text = text.replace(named, ours)
        return text

    def _environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if "VALETKEY" not in name}
        if self.programs != _OURS:
            ours.pop("PYTHONPATH", None)
        path = f"{self.programs}:{ours.get('PATH', '')}"
        return {**ours, "PATH": path, **self._variables}

    def _remember(self, kept: Path) -> None:
        for entry in kept.read_text().split("\0"):
            name, _, value = entry.partition("=")
            if value:
                self._variables[name] = value
        kept.unlink()
