"""The servers' databases as the command line opens them, whether or not the servers run.

Access to these files permits everything: the command line is the operator's, not a user's.
"""

import asyncio
import os
import pwd
import re
from collections.abc import Awaitable, Callable
from typing import TypeVar

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.app.foundation import SCHEMA, Foundation, build_foundation
from valetkey.authorization.app.settings import with_stored
from valetkey.authorization.model.event.event import DoneBy, by_cli
from valetkey.authorization.storage.transaction import ActorStore
from valetkey.config.installation import connect_to, open_known, open_tested, require_file
from valetkey.config.paths import database_file
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Engine
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.replace import replace
from valetkey.kernel.runtime import SYSTEM, Runtime
from valetkey.resource.scopes import scopes_of

_PLAIN = re.compile(r"[A-Za-z0-9._@+-]{1,64}", re.ASCII)
T = TypeVar("T")

SCHEMAS = {
    "authorization": SCHEMA,
    "resource": "valetkey.resource.storage.schema",
}
"""The package with each server's schema."""


def operator() -> str:
    """Return the system account of this process, such as `root`, or its number without a name.

    If the terminal's login is another one, both: `root login ada`. It tells operators apart; it
    proves nothing, because they can write to the database themselves.
    """
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        name = ""
    name = name if _PLAIN.fullmatch(name) else str(number)
    try:
        login = os.getlogin()
    except OSError:
        # No terminal: a unit, a container, a job.
        return name
    return f"{name} login {login}" if login != name and _PLAIN.fullmatch(login) else name


class OpenedStore(Struct, frozen=True):
    """The authorization server's database and keys, at one point in time."""

    foundation: Foundation
    now: Instant
    operator: CommandLine

    @property
    def settings(self) -> Settings:
        """The settings of the installation."""
        return self.foundation.settings

    @property
    def store(self) -> ActorStore:
        """Return the store of the authorization server, acting as the operator."""
        return self.foundation.store.acting(self.operator.done_by)

    @property
    def keyring(self) -> Keyring:
        """The keys that encrypt and fingerprint."""
        return self.foundation.keyring

    @property
    def runtime(self) -> Runtime:
        """The clock and the source of randomness."""
        return self.foundation.runtime


def with_store(
    settings: Settings,
    work: Callable[[OpenedStore], Awaitable[T]],
    *,
    begins: bool = False,
    acts: Callable[[str], DoneBy] = by_cli,
) -> T:
    """Run `work` on the database and return its result.

    Database and keyring are created only if the command `begins` an installation. The actor of
    events is the operator; `acts` names the tool.

    Raises OperatorError if one of them is missing or the database is not the one that its server
    knows, and DatabaseUnavailable.
    """
    if not begins and settings.source.file is None:
        file = database_file(settings, settings.authorization)
        if file is not None and not file.exists():
            raise OperatorError(
                f"there is no valetkey.toml here, and no database at {file}; name the "
                "configuration with --config FILE, or begin a server here with `valetkey serve` or "
                "`valetkey apply`"
            )
    settings = _addressed(settings)

    async def run() -> T:
        foundation = build_foundation(settings, SYSTEM, scopes_of(settings), begins=begins)
        done_by = acts(operator())
        try:
            server, schema = settings.authorization, SCHEMAS["authorization"]
            engine = foundation.store.engine
            # A command that may create the tables tests what they are to be stored in.
            opens = open_tested if begins else open_known
            await opens(settings, server, engine, schema, SYSTEM, begins=begins)
            foundation = await with_stored(foundation)
            foundation = replace(foundation, store=foundation.store.acting(done_by))
            # A keyring that is only tried is checked by the caller.
            if settings.authorization.keyring_text is None:
                await foundation.require_own_keyring()
            return await work(OpenedStore(foundation, SYSTEM.now(), CommandLine(done_by)))
        finally:
            await foundation.close()

    return asyncio.run(run())


def foundation_without_setup(settings: Settings) -> Foundation:
    """Return the foundation on the existing database; the caller closes its engine.

    Raises OperatorError where database or keyring is missing.
    """
    foundation = build_foundation(_addressed(settings), SYSTEM, scopes_of(settings), begins=False)
    return replace(foundation, store=foundation.store.acting(by_cli(operator())))


def open_database(settings: Settings, server: ServerSettings, *, begins: bool = False) -> Engine:
    """Open the server's database, with one connection on PostgreSQL. The caller closes it."""
    return connect_to(settings, server, pool_size=1, begins=begins)


def is_begun(settings: Settings, server: ServerSettings) -> bool:
    """Return whether the database may exist; only an SQLite file can be checked without asking.

    Raises OperatorError where a file is missing that the server knows.
    """
    require_file(settings, server, begins=True)
    file = database_file(settings, server)
    return file is None or file.exists()


def _addressed(settings: Settings) -> Settings:
    """Return the settings with port 0 replaced by any port: it is chosen when the servers start."""
    authorization, resource = settings.authorization, settings.resource
    return replace(
        settings,
        authorization=replace(authorization, url=authorization.url.removesuffix(":0")),
        resource=replace(resource, url=resource.url.removesuffix(":0")),
    )
