"""The world that the libraries of one file share, and the programs some of them are run by."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import programs
from tests.clients.world import World
from tests.clients.world import world as begin


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Both servers, with the clients and people of these tests."""
    with begin(tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[World]:
    """The same for one test alone, which may turn the clock."""
    with begin(tmp_path) as found:
        yield found


@pytest.fixture(scope="session")
def node() -> str:
    """The Node that runs the clients of the lock; without it, no test passes for lack of it."""
    found = programs.find_node()
    assert found is not None, "Node 20 and tests/clients/node_modules are missing"
    return found


@pytest.fixture(scope="session")
def curl() -> str:
    """The program, wherever it is."""
    found = programs.find_curl()
    assert found is not None, "curl is missing"
    return found
