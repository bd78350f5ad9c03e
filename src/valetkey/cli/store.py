"""The servers' memories as the command line opens them: the same files, with servers or without.

Whoever may read these files may do everything: the command line is the operator's, not a user's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from valetkey.authorization.storage.transaction import Store
from valetkey.config.paths import database_file, keyring_path
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.connect import connect
from valetkey.database.engine import Engine
from valetkey.database.migrate import migrate
from valetkey.kernel.keyring import Keyring, create_or_read
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import SYSTEM, Runtime

T = TypeVar("T")

SCHEMAS = {
    "authorization": "valetkey.authorization.storage.schema",
    "resource": "valetkey.resource.storage.schema",
}
"""Where the tables of each server are written down."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The authorization server's memory and keys, at one instant."""

    settings: Settings
    store: Store
    keyring: Keyring
    runtime: Runtime
    now: Instant


def with_store(settings: Settings, work: Callable[[Opened], Awaitable[T]]) -> T:
    """What `work` gives; database and keyring are made and brought up to date first.

    Raises Mistake and DatabaseUnavailable.
    """

    async def run() -> T:
        keyring = keyring_of(settings)
        engine = open_database(settings, settings.authorization)
        try:
            await migrate(engine, SCHEMAS["authorization"])
            store = Store(engine, SYSTEM.random)
            return await work(Opened(settings, store, keyring, SYSTEM, SYSTEM.now()))
        finally:
            await engine.close()

    return asyncio.run(run())


def open_database(settings: Settings, server: ServerSettings) -> Engine:
    """This server's database, with one connection where it counts them; close it."""
    return connect(server.database, directory=settings.source.directory, pool_size=1)


def is_begun(settings: Settings, server: ServerSettings) -> bool:
    """Whether this server's database may exist: only for a file is that known without asking."""
    file = database_file(settings, server)
    return file is None or file.exists()


def keyring_of(settings: Settings) -> Keyring:
    """The keyring from the environment, or from its file, which is made if there is none."""
    given = settings.authorization.keyring_text
    if given is not None:
        return Keyring.parse(given.reveal())
    return create_or_read(keyring_path(settings), SYSTEM.random)
