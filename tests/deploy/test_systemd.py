"""Debian's systemd finds the units right, and the service sandboxed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.nginx import DEPLOY
from tests.documents.pages import pages, text

_PROGRAM = "/opt/valetkey/bin/valetkey"
_MOST_EXPOSED = 2.0
"""Of 10, as `systemd-analyze security` counts; a unit without any sandbox has 9.6."""


@pytest.fixture(scope="module")
def systemd_analyze() -> str:
    """The program; without it, no test passes for lack of it."""
    path = shutil.which("systemd-analyze")
    assert path is not None, "systemd-analyze is missing"
    return path


def _unit(folder: Path, more: str = "") -> Path:
    text = (DEPLOY / "systemd/valetkey.service").read_text()
    assert _PROGRAM in text
    text = text.replace(_PROGRAM, str(Path(sys.executable).with_name("valetkey")))
    file = folder / "valetkey.service"
    file.write_text(text.replace("[Service]\n", f"[Service]\n{more}"))
    return file


def test_the_units_have_nothing_that_systemd_does_not_know(
    systemd_analyze: str, tmp_path: Path
) -> None:
    texts = [text(page) for page in pages()]
    # What a sentence tells to set in the unit.
    more = re.findall(r"`([A-Z][A-Za-z]+=[^`…]+)` in the systemd unit", "\n".join(texts))
    assert more
    socket = Path(shutil.copy(DEPLOY / "systemd/valetkey.socket", tmp_path))
    service = _unit(tmp_path, "".join(f"{line}\n" for line in more))
    command = [systemd_analyze, "verify", str(service), str(socket)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "valetkey." not in output


def test_commands_for_systemd_name_units_and_verbs_that_there_are() -> None:
    """They are not run: that takes a running systemd."""
    usage = subprocess.run(["systemctl", "--help"], capture_output=True, text=True, check=True)
    verbs = set(re.findall(r"^  ([a-z-]+) ", usage.stdout, re.MULTILINE))
    options = set(re.findall(r"--[a-z-]+", usage.stdout))
    ours = {file.name for file in (DEPLOY / "systemd").iterdir()}
    units = ours | {"postgresql.service", "etcd.service"}  # Debian's
    commands = [
        arguments.split()
        for page in pages()
        for arguments in re.findall(r"systemctl ((?:--?|\b)[a-z][^`|;\n]*)", text(page))
    ]
    assert len(commands) > 3
    for command in commands:
        verb, *rest = (word for word in command if word not in options)
        assert verb in verbs, command
        assert {name if "." in name else f"{name}.service" for name in rest} <= units, command


def test_service_unit_has_a_low_exposure_level(systemd_analyze: str, tmp_path: Path) -> None:
    command = [systemd_analyze, "security", "--offline=true", "--no-pager", str(_unit(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    level = re.search(r"exposure level for valetkey\.service: ([0-9.]+)", done.stdout)
    assert level is not None, done.stderr
    assert float(level[1]) <= _MOST_EXPOSED
