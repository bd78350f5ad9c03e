"""The world that each group of attacks shares."""

from collections.abc import Iterator

import pytest

from tests.attacks.world import World
from tests.attacks.world import world as begin


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Both servers with the clients and people of the catalogue, once for each group."""
    with begin(tmp_path_factory.mktemp("world")) as found:
        yield found
