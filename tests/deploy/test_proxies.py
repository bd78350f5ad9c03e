"""Caddy, Traefik and Envoy, configured as in deploy/, authenticate callers by /forward-auth."""

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests

from bench.ports import free_port
from tests.deploy import proxies
from tests.deploy.conftest import Behind, Site, behind
from tests.deploy.guarded import Guarded
from tests.deploy.nginx import running
from tests.support.wait import CEILING

_PATIENCE = CEILING


@contextmanager
def _behind(
    program: str, folder: Path, command: Callable[[str, Behind, int], Sequence[str]]
) -> Generator[Site]:
    port = free_port()
    with behind(folder) as there, running(command(program, there, port), port, folder / "log"):
        site = Site(there.servers, f"https://127.0.0.1:{port}", there.certificate, folder / "log")
        _await_answer(site)
        yield site


def _await_answer(site: Site) -> None:
    # Some listen before they have read their certificate and their routes.
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if site.get("/app").status_code == 401:
                return
        except requests.ConnectionError:
            pass
        assert time.monotonic() < deadline, "the proxy does not guard"
        time.sleep(0.05)


class TestCaddy(Guarded):
    """Debian's Caddy."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, caddy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(caddy, tmp_path_factory.mktemp("caddy"), proxies.caddy) as proxied_site:
            yield proxied_site


class TestTraefik(Guarded):
    """The Traefik that the lock pins."""

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, traefik: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(traefik, tmp_path_factory.mktemp("traefik"), proxies.traefik) as proxied_site:
            yield proxied_site


class TestEnvoy(Guarded):
    """The Envoy that the lock pins."""

    underscores = 400

    @pytest.fixture(scope="class")
    @classmethod
    def site(cls, envoy: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
        with _behind(envoy, tmp_path_factory.mktemp("envoy"), proxies.envoy) as proxied_site:
            yield proxied_site
