"""The files of another commit, to run beside those of this one."""

import io
import subprocess
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[1]


def extract(commit: str, folder: Path, *paths: str) -> None:
    """Write the files of a commit, or those at `paths` alone, to a folder."""
    command = ("git", "archive", commit, *paths)
    archive = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
