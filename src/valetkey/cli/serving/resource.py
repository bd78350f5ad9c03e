"""A process that answers for the resource server."""

import sys

from valetkey.cli.serving import worker
from valetkey.config.settings import Settings
from valetkey.kernel.runtime import SYSTEM
from valetkey.resource.app import build, prepare
from valetkey.web.router import App


async def _prepare(settings: Settings) -> None:
    await prepare(settings, SYSTEM)


async def _build(settings: Settings) -> App:
    return await build(settings, SYSTEM)


if __name__ == "__main__":
    sys.exit(worker.work("resource", sys.argv[1:], _prepare, _build))
