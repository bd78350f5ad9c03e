"""The files of the last commit: those of `make package`, or else built once per run."""

import fcntl
import os
from pathlib import Path

import pytest

from release.package import ROOT, build

LATER = (".tar", ".json", "SHA256SUMS")
"""Ends of the names of files that two builds do not share, or that are made from the others."""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return everything of a release of the last commit but bill of materials and image."""
    if folder := os.environ.get("VALETKEY_PACKAGE"):
        return sorted(path for path in Path(folder).iterdir() if not path.name.endswith(LATER))
    # The folder of the run: tests of these files are spread over its processes.
    base = tmp_path_factory.getbasetemp()
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    files, whole = run / "release-files", run / "release-files-whole"
    with (run / "release-files-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            build(ROOT, files)
            whole.touch()
    return sorted(files.iterdir())


@pytest.fixture(scope="session")
def server_wheel(built: list[Path]) -> Path:
    """Return the wheel with the servers."""
    return next(
        path for path in built if path.name.startswith("valetkey-") and path.suffix == ".whl"
    )


@pytest.fixture(scope="session")
def sdk_wheel(built: list[Path]) -> Path:
    """Return the wheel of the SDK alone."""
    return next(path for path in built if path.name.startswith("valetkey_sdk-"))
