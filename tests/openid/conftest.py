"""One provider for all apps of a process, on each engine: each test registers an app of its own."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conftest import ENGINES
from tests.openid.provider import RESPONSE_TYPES, Provider, provider
from tests.openid.relying_party import RelyingParty
from tests.support import postgres

USUAL = [(response_type, "") for response_type in RESPONSE_TYPES]
BY_FORM = [(response_type, "form_post") for response_type in RESPONSE_TYPES]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every flow on every engine; how an answer is posted does not depend on the database."""
    if "rp" in metafunc.fixturenames:
        flows = [
            *(("sqlite", flow) for flow in [*USUAL, *BY_FORM]),
            *((engine, flow) for engine in ENGINES if engine != "sqlite" for flow in USUAL),
        ]
        names = [" ".join(filter(None, (*flow, engine))) for engine, flow in flows]
        metafunc.parametrize(("op", "rp"), flows, ids=names, indirect=True)
    elif "op" in metafunc.fixturenames:
        metafunc.parametrize("op", ENGINES, indirect=True)


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Provider]]:
    """The providers of this process by engine, each started when it is first wanted."""
    with ExitStack() as stack:
        yield _Started(tmp_path_factory, stack)


class _Started(dict[str, Provider]):
    def __init__(self, folders: pytest.TempPathFactory, stack: ExitStack) -> None:
        super().__init__()
        self._folders, self._stack = folders, stack

    def __missing__(self, engine: str) -> Provider:
        url = "" if engine == "sqlite" else self._stack.enter_context(postgres.database())
        folder = self._folders.mktemp(f"openid-{engine}")
        self[engine] = self._stack.enter_context(provider(folder, url))
        return self[engine]


@pytest.fixture
def op(started: dict[str, Provider], request: pytest.FixtureRequest) -> Provider:
    """The provider."""
    return started[request.param]


@pytest.fixture
def rp(op: Provider, request: pytest.FixtureRequest) -> RelyingParty:
    """A fresh app for one response type and response mode."""
    response_type, response_mode = request.param
    return op.register(response_type, response_mode)
