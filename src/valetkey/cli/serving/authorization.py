"""The worker process of the authorization server."""

import os
import signal
import sys
from collections.abc import Callable

from valetkey.authorization.app.build import build
from valetkey.authorization.app.foundation import prepare
from valetkey.authorization.layout.viewer import configuration_of
from valetkey.authorization.site.documentation import base_of
from valetkey.cli.serving import worker
from valetkey.cli.serving.plan import NODE
from valetkey.config.environment import environment
from valetkey.config.settings import Settings
from valetkey.kernel import metrics
from valetkey.kernel.runtime import SYSTEM
from valetkey.kernel.secret import to_base64url
from valetkey.resource.scopes import scopes_of
from valetkey.web import log
from valetkey.web.router import RoutedApp


async def ready_database(settings: Settings) -> None:
    """Migrate the database and store what the server needs in it."""
    if not await prepare(settings, SYSTEM):
        named = configuration_of(settings).shown(administers=True)
        log.info("owner.missing", next=f"valetkey owner{named and f' --config {named}'}")


def _reload() -> None:
    """Make the supervisor replace the workers of this installation, as `valetkey reload` does."""
    os.kill(os.getppid(), signal.SIGHUP)


async def application(settings: Settings, number: int | None = None) -> RoutedApp:
    """Build the authorization server's application for the worker with this number.

    Without one, no supervisor reloads: changed settings take effect with the next start.
    """
    if docs := base_of(settings.docs.url, settings.authorization.url):
        metrics.DOCUMENTATION.set(1, docs)
    reload = None if number is None else _reload
    return await build(settings, SYSTEM, scopes_of(settings), reload, number or 0, _node())


async def issuer(number: int, settings: Settings, restart: Callable[[], None]) -> RoutedApp:
    """Build the application of one of several issuers; `restart` replaces it by a new one."""
    if docs := base_of(settings.docs.url, settings.authorization.url):
        metrics.DOCUMENTATION.set(1, docs)
    node = "" if number else _node()
    return await build(settings, SYSTEM, scopes_of(settings), restart, node=node)


def _node() -> str:
    """Return the id of the node: of the supervisor, or of this process without one."""
    return environment().get(NODE) or to_base64url(SYSTEM.random(9))


if __name__ == "__main__":
    sys.exit(worker.run_worker("authorization", sys.argv[1:], ready_database, application, issuer))
