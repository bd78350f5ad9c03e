"""Open the databases of an installation, after checking that they are the known ones."""

from valetkey.config.paths import database_file, last_seen_path
from valetkey.config.settings import AuthorizationSettings, ServerSettings, Settings
from valetkey.database.connect import connect, traced
from valetkey.database.engine import NOTICES, Engine, SelfTest
from valetkey.database.identity import LAG, is_missing, last_seen, recognise
from valetkey.database.migrate import migrate
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import Runtime


def connect_to(
    settings: Settings, server: ServerSettings, *, begins: bool = True, pool_size: int = 0
) -> Engine:
    """Open this server's database with the number of connections in `database.connections`.

    Raises OperatorError and DatabaseUnavailable: see `connect`.
    """
    engine = connect(
        server.database,
        directory=settings.source.directory,
        pool_size=pool_size or settings.database.connections,
        begins=begins,
        timeouts=settings.database.timeouts,
        replicas=server.replicas if isinstance(server, AuthorizationSettings) else (),
    )
    return traced(engine, server.database) if settings.traces.endpoint else engine


def require_file(settings: Settings, server: ServerSettings, *, begins: bool) -> None:
    """Raise OperatorError for a missing SQLite file that its server knows or that has to exist."""
    file = database_file(settings, server)
    if file is None or file.exists():
        return
    if last_seen(last_seen_path(settings, server)) is not None:
        raise _missing(settings, server, f"{file} is")
    if not begins:
        raise OperatorError(
            f"there is no database at {file} yet; begin with `valetkey serve` or `valetkey apply`"
        )


async def open_known(
    settings: Settings,
    server: ServerSettings,
    engine: Engine,
    schema: str,
    runtime: Runtime,
    *,
    begins: bool = True,
) -> None:
    """Migrate the database and check that it is the one that its server knows.

    Raises OperatorError if it is missing, another one or older, and if it has no tables and this
    start does not begin it.
    """
    file = last_seen_path(settings, server)
    seen = last_seen(file)
    if (seen is not None or not begins) and await is_missing(engine):
        if seen is not None:
            raise _missing(settings, server, "the tables are")
        raise OperatorError(
            "the database has no tables yet; begin with `valetkey serve` or `valetkey apply`"
        )
    await migrate(engine, schema)
    await recognise(engine, file, runtime.random(16), runtime.now(), lag=lag(settings, server))


async def open_tested(
    settings: Settings,
    server: ServerSettings,
    engine: Engine,
    schema: str,
    runtime: Runtime,
    *,
    begins: bool = True,
) -> SelfTest:
    """Test the database engine, then do what `open_known` does; return what the test found.

    Raises as `open_known` and `Engine.self_test` do.
    """
    tested = await engine.self_test(runtime.random)
    await open_known(settings, server, engine, schema, runtime, begins=begins)
    if not tested.complete:
        # Only now does it have the tables.
        tested = await engine.self_test(runtime.random)
    NOTICES.not_durable(tested.risks)
    return tested


async def forget_missing(settings: Settings, server: ServerSettings) -> bool:
    """Forget the database that this server knows, if it is missing. Return whether it was known."""
    note, file = last_seen_path(settings, server), database_file(settings, server)
    if last_seen(note) is None:
        return False
    if file is None:
        engine = connect_to(settings, server, pool_size=1)
        try:
            missing = await is_missing(engine)
        finally:
            await engine.close()
    else:
        missing = not file.exists()
    if missing:
        # Another process that begins at the same time may have removed it.
        note.unlink(missing_ok=True)
    return missing


def lag(settings: Settings, server: ServerSettings) -> int:
    """Return how many of the latest commits an engine may lose without a restore."""
    return LAG if database_file(settings, server) is None else 0


def _missing(settings: Settings, server: ServerSettings, what: str) -> OperatorError:
    note = last_seen_path(settings, server)
    name = "authorization" if server is settings.authorization else "resource"
    return OperatorError(
        f"{what} missing, and the server knows this database (noted in {note}); put it back: "
        "valetkey database restore. To begin with an empty one: valetkey serve --new",
        f"{name}.database",
    )
