"""Check the databases: reachable, schema up to date, clocks in agreement."""

from collections.abc import AsyncIterator

from valetkey.cli.doctoring.finding import Finding, bad, good, mind
from valetkey.cli.doctoring.health import healths
from valetkey.cli.register.store import is_begun, open_database
from valetkey.config.agreement import servers
from valetkey.config.paths import database_file, last_seen_path
from valetkey.config.settings import Settings
from valetkey.database.engine import Connection, DatabaseUnavailable
from valetkey.kernel.refusal import Mistake
from valetkey.kernel.runtime import SYSTEM

_TOLERANCE = 10
_MOST = 60


async def databases(settings: Settings) -> AsyncIterator[Finding]:
    """Check both databases."""
    for health in await healths(settings):
        about = f"{health.server} database"
        if health.ok:
            yield good(about, health.found)
        else:
            yield bad(about, health.found, health.next)
    for name, server in servers(settings):
        file = last_seen_path(settings, server)
        if not file.exists() and is_begun(settings, server):
            found = f"what the server saw last of it is not noted in {file}"
            yield mind(f"{name} database", found, "Let the server's user write that folder.")


async def clocks(settings: Settings) -> AsyncIterator[Finding]:
    """Compare the clocks of PostgreSQL servers with this machine's."""
    for name, server in servers(settings):
        if database_file(settings, server) is not None:
            continue
        about = f"{name} database's clock"
        try:
            engine = open_database(settings, server)
            try:
                theirs = await engine.scan(_clock)
                skew = abs(theirs - SYSTEM.now())
            finally:
                await engine.close()
        except (DatabaseUnavailable, Mistake):
            continue
        yield judged_skew(about, skew)


def judged_skew(about: str, skew: int) -> Finding:
    """Return the finding for a difference of `skew` seconds between two clocks."""
    if skew > _MOST:
        return bad(about, f"{skew} s from this machine's", "Let both follow one time server.")
    if skew > _TOLERANCE:
        return mind(about, f"{skew} s from this machine's", "Let both follow one time server.")
    return good(about, f"{skew} s from this machine's")


def _clock(db: Connection) -> int:
    # PostgreSQL only, as SQLite uses this machine's clock.
    row = db.row("SELECT CAST(EXTRACT(EPOCH FROM CURRENT_TIMESTAMP) AS BIGINT)")
    return int(row[0]) if row else 0
