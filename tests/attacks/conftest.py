"""The servers that each group of attacks shares. README.md explains the codes of the cases."""

from collections.abc import Iterator

import pytest

from tests.support.live import LiveServers, live_servers


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServers]:
    """Start both servers with the clients and users of the catalogue, once for each group."""
    with live_servers(tmp_path_factory.mktemp("world")) as servers:
        yield servers
