"""The worker process of the resource server."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

from valetkey.cli.serving import worker
from valetkey.config.environment import environment
from valetkey.config.settings import Settings
from valetkey.kernel.runtime import ISSUER, SYSTEM
from valetkey.resource.app import build, prepare
from valetkey.resource.requests.allowance import VARIABLE, SharedCounters
from valetkey.web.router import RoutedApp


async def ready_database(settings: Settings) -> None:
    """Migrate the resource server's database."""
    await prepare(settings, SYSTEM)


async def application(settings: Settings, _number: int = 0) -> RoutedApp:
    """Build the resource server's application."""
    shared = environment().get(VARIABLE)
    return await build(settings, SYSTEM, SharedCounters(Path(shared)) if shared else None)


async def issuer(_number: int, settings: Settings, _restart: Callable[[], None]) -> RoutedApp:
    """Build the application of one of several issuers."""
    return await build(settings, SYSTEM, _ledger(ISSUER.get()))


@cache
def _ledger(name: str) -> SharedCounters | None:
    """Return the counters of an issuer: its applications in this process, one after the other."""
    shared = environment().get(VARIABLE)
    return SharedCounters.for_name(Path(shared), name) if shared else None


if __name__ == "__main__":
    sys.exit(worker.run_worker("resource", sys.argv[1:], ready_database, application, issuer))
