"""What every test may ask for: a database of its own, on either engine."""

import asyncio
import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support import lock_order, postgres, schema_copy, token_changes
from tests.support.wait import CEILING
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.fetch import outbound

# A busy machine is slow, not wrong: nothing here is timed.
settings.register_profile("calm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("calm")

pytest_plugins = ("tests.clients.programs", "tests.support.browser")

# In CI nothing is left out: there, tests that need a missing PostgreSQL fail.
_LEFT_OUT = postgres.binaries() is None and not os.environ.get("CI")
ENGINES = ("sqlite",) if _LEFT_OUT else ("sqlite", "postgres")
_SLOW = tuple(
    f"tests/{folder}/"
    for folder in ("deploy", "documents", "reliability", "stories", "clients", "cli", "release")
)
"""Folders with files that take a minute: they begin first."""

_NEED_IT = {"postgres_url", "own_postgres"}


def _began_here(config: pytest.Config) -> bool:
    return not hasattr(config, "workerinput")


def _distributes(config: pytest.Config) -> bool:
    """Return whether this process only hands out tests."""
    return _began_here(config) and bool(getattr(config.option, "numprocesses", None))


lock_order.watch()
token_changes.watch()
schema_copy.use()
# A machine may stall for longer than the limits of production. A delivery that gave up then would
# never be retried where the test stops the clock.
outbound.ANSWER_WITHIN = outbound.CONNECT_WITHIN = CEILING


_OBJECTS = 20_000
"""How many new objects the garbage collector examines at a time, as in a server's worker."""


def pytest_configure(config: pytest.Config) -> None:
    if not _distributes(config):
        # What pytest collects stays: looking for garbage in it took a quarter of the time.
        gc.disable()
    if _began_here(config):
        # Half of a test that starts a server on SQLite was waiting for the disk to flush.
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", postgres.memory_or_disk())
        postgres.begin()


def pytest_collection_finish(session: pytest.Session) -> None:
    if not _distributes(session.config):
        gc.collect()
        gc.freeze()
        gc.set_threshold(_OBJECTS, 10, 10)
        gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if _began_here(config):
        postgres.end()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Whoever gets the last file of whole servers would otherwise be waited for.
    items.sort(key=lambda item: not item.nodeid.startswith(_SLOW))
    if not _LEFT_OUT:
        return
    left_out = [item for item in items if _NEED_IT & set(_fixtures(item))]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _LEFT_OUT:
        terminalreporter.write_line(
            "LEFT OUT: PostgreSQL is not installed, so NOTHING was tested on it."
            " On Debian: apt-get install postgresql-15",
            red=True,
            bold=True,
        )


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return item.fixturenames if isinstance(item, pytest.Function) else ()


@pytest.fixture(autouse=True)
def _locks_are_taken_in_order() -> Iterator[None]:
    """Fail a test in which a transaction of this process could deadlock on PostgreSQL."""
    lock_order.violations.clear()
    yield
    assert not lock_order.violations, "\n".join(sorted(set(lock_order.violations)))


@pytest.fixture(autouse=True)
def _caches_are_told_of_changes() -> Iterator[None]:
    """Fail a test in which answers about tokens could be cached for too long."""
    token_changes.violations.clear()
    yield
    assert not token_changes.violations, "\n".join(sorted(set(token_changes.violations)))


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of a SQLite database that does not exist yet."""
    return f"sqlite:///{tmp_path}/valetkey.db"


@pytest.fixture
def postgres_url() -> Iterator[str]:
    """The URL of a fresh, empty PostgreSQL database."""
    with postgres.database() as url:
        yield url


@pytest.fixture
def own_postgres() -> Iterator[Path]:
    """The folder of a PostgreSQL that this test may stop and start again."""
    with postgres.own_server() as folder:
        yield folder


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> str:
    """The URL of a fresh, empty database; the test runs once on each engine."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def engine(database_url: str, tmp_path: Path) -> Iterator[Engine]:
    """An engine on a fresh, empty database; the test runs once on each."""
    engine = connect(database_url, directory=tmp_path)
    yield engine
    asyncio.run(engine.close())


@pytest.fixture
def another_postgres_url() -> Iterator[str]:
    """The URL of one more fresh PostgreSQL database, for tests that need two."""
    with postgres.database() as url:
        yield url
