"""What `make release` builds can be installed and runs, and it refuses what is not ready."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from release.__main__ import ROOT, build, checksums, reasons_against
from tests.documents.how_to.test_install import follow
from tests.documents.shell import Terminal
from tests.support.wait import CEILING

_UV = (sys.executable, "-m", "uv", "--quiet")
# What the SDK may load: the interpreter's own modules, these, and itself.
_LOADED = """
import pkgutil, sys, valetkey.sdk
for found in pkgutil.walk_packages(valetkey.__path__, "valetkey."):
    if "adapters" not in found.name and not found.name.endswith("testing"):
        __import__(found.name)
own = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(*sorted(name for name in own if not name.startswith("_")))
"""
# CPU time, so that other load on the machine does not count.
_IMPORTED = "import time, valetkey.sdk; print(time.process_time())"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return both wheels and the source distribution of the last commit."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


def _installed(wheel: Path, folder: Path) -> Path:
    """Install a wheel with what it needs into an empty environment; return its `bin`."""
    subprocess.run([*_UV, "venv", "--python", sys.executable, str(folder)], check=True)
    place = (
        "--python",
        str(folder / "bin/python"),
        "--constraint",
        str(ROOT / "requirements.lock"),
    )
    subprocess.run([*_UV, "pip", "install", *place, str(wheel)], check=True)
    return folder / "bin"


def _output(*command: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        command, cwd=cwd, check=True, capture_output=True, text=True, timeout=CEILING
    )
    return done.stdout


def test_wheel_in_an_empty_environment_runs_the_demo(built: list[Path], tmp_path: Path) -> None:
    programs = _installed(built[0], tmp_path / "environment")
    assert "All responses were correct" in _output(
        programs / "valetkey", "demo", "--walk", cwd=tmp_path
    )


def test_wheel_leads_to_a_consent_page_within_five_minutes(
    built: list[Path], tmp_path: Path
) -> None:
    begun = time.monotonic()
    programs = _installed(built[0], tmp_path / "environment")
    folder = tmp_path / "server"
    folder.mkdir()
    follow(Terminal(folder, programs=programs))
    assert time.monotonic() - begun < 300


def test_sdk_needs_nothing_of_the_servers(built: list[Path], tmp_path: Path) -> None:
    wheel = built[2]
    assert wheel.name.startswith("valetkey_sdk-")
    assert wheel.stat().st_size < 150_000
    programs = _installed(wheel, tmp_path / "environment")
    seconds = float(_output(programs / "python", "-c", _IMPORTED, cwd=tmp_path))
    assert seconds < 1
    loaded = _output(programs / "python", "-c", _LOADED, cwd=tmp_path).split()
    assert loaded == ["cryptography", "msgspec", "valetkey"]
    listed = _output(*_UV, "pip", "list", "--python", programs / "python", cwd=tmp_path)
    names = {line.split()[0] for line in listed.splitlines()[2:]}
    assert names == {"cffi", "cryptography", "msgspec", "pycparser", "valetkey-sdk"}


def test_two_builds_of_a_commit_are_the_same(built: list[Path], tmp_path: Path) -> None:
    assert checksums(build(ROOT, tmp_path)) == checksums(built)


def test_refuses_with_every_reason(tmp_path: Path) -> None:
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@example.com")
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    for arguments in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *arguments], cwd=tmp_path, check=True)
    assert reasons_against(tmp_path, "1") == ['"1" is not a version such as 0.2.0 or 0.2.0rc1']
    assert reasons_against(tmp_path, "97.0.0") == [
        "pyproject.toml has another version than 97.0.0",
        "CHANGELOG.md has no section [97.0.0] with its date and what changed",
    ]
    project, changelog = tmp_path / "pyproject.toml", tmp_path / "CHANGELOG.md"
    lines = project.read_text().splitlines(keepends=True)
    lines[lines.index('name = "valetkey"\n') + 1] = 'version = "97.0.0"\n'
    project.write_text("".join(lines))
    changelog.write_text("## [97.0.0] - 2027-01-01\n\n- Everything.\n")
    subprocess.run([*git, "tag", "v97.0.0"], cwd=tmp_path, check=True)
    subprocess.run([*git, "switch", "-qc", "other"], cwd=tmp_path, check=True)
    assert reasons_against(tmp_path, "97.0.0") == [
        "there are changes that are not committed",
        "this is branch other, not main",
        "there is a tag v97.0.0",
    ]
    subprocess.run([*git, "switch", "-q", "main"], cwd=tmp_path, check=True)
    subprocess.run([*git, "tag", "-d", "v97.0.0"], cwd=tmp_path, check=True, capture_output=True)
    subprocess.run([*git, "commit", "-qam", "release"], cwd=tmp_path, check=True)
    changelog.write_text("## [97.0.0] - 2027-01-01\n\n## [0.1.0] - 2026-01-01\n\n- Everything.\n")
    subprocess.run([*git, "commit", "-qam", "empty"], cwd=tmp_path, check=True)
    assert reasons_against(tmp_path, "97.0.0") == [
        "CHANGELOG.md has no section [97.0.0] with its date and what changed"
    ]
