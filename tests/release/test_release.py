"""What `make release` builds can be installed and runs, and it refuses what is not ready."""

import shutil
import subprocess
import time
from pathlib import Path

from release.__main__ import reasons_against
from release.package import ROOT, build, checksums
from tests.documents.how_to.test_install import follow
from tests.documents.shell import Terminal
from tests.release.environment import installed, output


def test_wheel_in_an_empty_environment_runs_the_demo(server_wheel: Path, tmp_path: Path) -> None:
    programs = installed(tmp_path / "environment", server_wheel)
    assert "All responses were correct" in output(
        programs / "valetkey", "demo", "--walk", cwd=tmp_path
    )


def test_consent_page_is_reached_from_the_wheel_within_five_minutes(
    server_wheel: Path, tmp_path: Path
) -> None:
    begun = time.monotonic()
    programs = installed(tmp_path / "environment", server_wheel)
    folder = tmp_path / "server"
    folder.mkdir()
    follow(Terminal(folder, programs=programs))
    assert time.monotonic() - begun < 300


def test_two_builds_of_a_commit_are_the_same(built: list[Path], tmp_path: Path) -> None:
    assert checksums(build(ROOT, tmp_path)) == checksums(built)


def test_release_is_refused_with_every_reason(tmp_path: Path) -> None:
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
