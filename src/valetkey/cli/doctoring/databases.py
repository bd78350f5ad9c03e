"""Check the databases: reachable, current schema, writable, and the checks of the shared table."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from valetkey.authorization.actions.inspection.check import Finding as SharedFinding
from valetkey.authorization.actions.inspection.check import Site
from valetkey.authorization.actions.inspection.databases import DatabaseOf, of_database
from valetkey.authorization.actions.inspection.table import in_database
from valetkey.cli.doctoring.finding import Finding, error, from_shared, ok
from valetkey.cli.doctoring.health import Health, healths
from valetkey.cli.doctoring.usernames import usernames
from valetkey.cli.register.store import foundation_without_setup, open_database
from valetkey.config.agreement import servers
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Connection, DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_PAGE = "how-to/operate/alerts/database-failing"


async def databases(settings: Settings) -> AsyncIterator[Finding]:
    """Check both databases, and the content of the authorization server's."""
    for health, (name, server) in zip(await healths(settings), servers(settings), strict=True):
        yield _shown(health)
        if not health.ok and not health.is_readable:
            continue
        try:
            if name == "authorization":
                for finding in await _own(settings):
                    yield finding
            else:
                for each in await _other(settings, name, server):
                    yield from_shared(each, console=False)
        except (DatabaseUnavailable, OperatorError) as reason:
            yield error(f"{name} database", str(reason), page=_PAGE)


def _shown(health: Health) -> Finding:
    about = f"{health.server} database"
    if health.ok:
        return ok(about, health.found)
    return error(about, health.found, health.next, _PAGE)


async def _own(settings: Settings) -> Sequence[Finding]:
    foundation = foundation_without_setup(settings)
    try:
        site = Site(settings, foundation.keyring, foundation.roles, SYSTEM.now())
        found = await foundation.store.scan(partial(in_database, site=site))
        return [
            *(from_shared(each) for each in found),
            *await usernames(foundation.store, settings),
        ]
    finally:
        await foundation.close()


async def _other(settings: Settings, name: str, server: ServerSettings) -> Sequence[SharedFinding]:
    of, engine = DatabaseOf(name, settings, server), open_database(settings, server)

    def read_state(db: Connection) -> Sequence[SharedFinding]:
        return tuple(of_database(db, of, SYSTEM.now()))

    try:
        return await engine.scan(read_state)
    finally:
        await engine.close()
