"""Debian's systemd finds the unit right, and sandboxed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.nginx import DEPLOY

_PROGRAM = "/opt/valetkey/bin/valetkey"
_MOST_EXPOSED = 2.0
"""Of 10, as `systemd-analyze security` counts; a unit without any sandbox has 9.6."""


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    """The program; without it, no test passes for lack of it."""
    found = shutil.which("systemd-analyze")
    assert found is not None, "systemd-analyze is missing"
    return found


def _unit(folder: Path) -> Path:
    text = (DEPLOY / "systemd/valetkey.service").read_text()
    assert _PROGRAM in text
    file = folder / "valetkey.service"
    file.write_text(text.replace(_PROGRAM, str(Path(sys.executable).with_name("valetkey"))))
    return file


def test_the_unit_has_nothing_that_systemd_does_not_know(
    systemd_analyze: str, tmp_path: Path
) -> None:
    command = [systemd_analyze, "verify", str(_unit(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert "valetkey.service" not in said


def test_the_service_is_kept_in_a_small_box(systemd_analyze: str, tmp_path: Path) -> None:
    command = [systemd_analyze, "security", "--offline=true", "--no-pager", str(_unit(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    level = re.search(r"exposure level for valetkey\.service: ([0-9.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level[1]) <= _MOST_EXPOSED
