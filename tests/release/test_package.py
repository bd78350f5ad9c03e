"""What `make package` makes beside the wheels works in an empty environment."""

import os
import subprocess
import zipfile
from pathlib import Path

from release.package import ROOT, archive
from tests.deploy.test_helm import VALUES, programs
from valetkey.authorization.site.documentation import ARCHIVE

__all__ = ["programs"]


def _named(built: list[Path], beginning: str, ending: str) -> Path:
    (path,) = (file for file in built if file.match(f"{beginning}-[0-9]*{ending}"))
    return path


def test_wheel_has_the_documentation_of_its_commit(built: list[Path], server_wheel: Path) -> None:
    documentation = _named(built, "valetkey-docs", ".zip").read_bytes()
    with zipfile.ZipFile(server_wheel) as wheel:
        assert wheel.read(str(ARCHIVE.relative_to(ROOT / "src"))) == documentation


def test_chart_of_the_archive_renders(built: list[Path], programs: Path, tmp_path: Path) -> None:
    values: list[str | Path] = []
    for name, text in VALUES.items():
        (tmp_path / name).write_text(text)
        values += ["--values", tmp_path / name]
    chart = _named(built, "valetkey-chart", ".tgz")
    rendered = subprocess.run(
        [programs / "helm", "template", "valetkey", chart, *values],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "kind: Deployment" in rendered


def test_archive_does_not_depend_on_file_times_and_modes(tmp_path: Path) -> None:
    folder = tmp_path / "chart"
    folder.mkdir()
    (folder / "values.yaml").write_text("a: 1\n")
    first = archive(folder, 1_000_000_000)
    os.utime(folder / "values.yaml", (1, 1))
    (folder / "values.yaml").chmod(0o600)
    assert archive(folder, 1_000_000_000) == first
