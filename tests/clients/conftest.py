"""Servers that the libraries of one file share, and the programs that run some of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.clients import programs
from tests.clients.presets.site import provider
from tests.clients.site import LocalSite, local_site
from valetkey.testing.server import Servers


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSite]:
    """Start both servers with the clients and users of these tests."""
    with local_site(tmp_path_factory.mktemp("world")) as site:
        yield site


@pytest.fixture
def own_world(tmp_path: Path) -> Iterator[LocalSite]:
    """Start both servers for one test, which may move the clock."""
    with local_site(tmp_path) as site:
        yield site


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """A server for clients that are configured by their presets."""
    with provider(tmp_path_factory.mktemp("provider")) as running_servers:
        yield running_servers


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab of Chromium with no cookies yet."""
    context = browser.new_context()
    yield context.new_page()
    context.close()


@pytest.fixture(scope="session")
def node() -> str:
    """The Node that runs the clients of the lock; without it, no test passes for lack of it."""
    program = programs.find_node()
    assert program is not None, "Node 20 and tests/clients/node_modules are missing"
    return program


@pytest.fixture(scope="session")
def curl() -> str:
    """The program, wherever it is."""
    program = programs.find_curl()
    assert program is not None, "curl is missing"
    return program


@pytest.fixture(scope="session")
def nginx() -> str:
    """The same for nginx."""
    program = programs.find_nginx()
    assert program is not None, "nginx is missing"
    return program
