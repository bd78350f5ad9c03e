"""The wheels of the last commit, built once."""

from pathlib import Path

import pytest

from release.__main__ import ROOT, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return both wheels and the source distribution of the last commit."""
    return build(ROOT, tmp_path_factory.mktemp("dist"))


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
