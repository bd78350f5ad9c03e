"""Empty environments in which a wheel is installed with what it declares, and nothing else."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from release.package import ROOT
from tests.support.wait import CEILING

UV = (sys.executable, "-m", "uv", "--quiet")


def installed(folder: Path, *packages: str | Path) -> Path:
    """Install wheels and packages into an empty environment; return its `bin`."""
    subprocess.run([*UV, "venv", "--python", sys.executable, str(folder)], check=True)
    python_option = ("--python", str(folder / "bin/python"))
    pinned = ("--constraint", str(ROOT / "requirements-dev.lock"))
    subprocess.run(
        [*UV, "pip", "install", *python_option, *pinned, *map(str, packages)], check=True
    )
    return folder / "bin"


def output(*command: str | Path, cwd: Path) -> str:
    """Return what a command prints, which must succeed without the modules of the checkout."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=alone(),
        check=False,
        capture_output=True,
        text=True,
        timeout=CEILING,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def alone(more: Mapping[str, str] | None = None) -> Mapping[str, str]:
    """Return this process's environment without the modules of the checkout."""
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**ours, **(more or {})}


def packages_of(install: str) -> Sequence[str]:
    """Return what a printed `pip install …` installs, without Valetkey and its SDK."""
    words = install.split()
    assert words[:2] == ["pip", "install"], install
    ours = ("valetkey", "./release/sdk")
    return [word for word in words[2:] if not word.startswith(ours)]
