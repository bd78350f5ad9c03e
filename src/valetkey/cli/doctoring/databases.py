"""Check the databases: reachable, current schema, writable, and the checks of the shared table."""

from collections.abc import AsyncIterator, Sequence
from functools import partial

from valetkey.authorization.actions.account.usernames import username_fault
from valetkey.authorization.actions.admin.search import summary
from valetkey.authorization.actions.inspection.check import Finding, Site
from valetkey.authorization.actions.inspection.databases import DatabaseOf, of_database
from valetkey.authorization.actions.inspection.table import in_database
from valetkey.authorization.features import CHECKS
from valetkey.authorization.model.account.user import User
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.cli.doctoring.finding import CheckResult, error, from_shared, ok, warning
from valetkey.cli.doctoring.health import DatabaseHealth, health_of_servers
from valetkey.cli.register.store import foundation_without_setup, open_database
from valetkey.config.agreement import servers
from valetkey.config.load import OperatorErrors
from valetkey.config.settings import ServerSettings, Settings
from valetkey.database.engine import Connection, DatabaseUnavailable
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import SYSTEM

_PAGE = "how-to/operate/alerts/database-failing"


async def databases(settings: Settings) -> AsyncIterator[CheckResult]:
    """Check both databases, and the content of the authorization server's."""
    for health, (name, server) in zip(
        await health_of_servers(settings), servers(settings), strict=True
    ):
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
        except OperatorErrors:
            # The check of the configuration reports it.
            continue
        except (DatabaseUnavailable, OperatorError) as reason:
            yield error(f"{name} database", str(reason), page=_PAGE)


def _shown(health: DatabaseHealth) -> CheckResult:
    about = f"{health.server} database"
    if health.ok:
        return ok(about, health.found)
    return error(about, health.found, health.next, _PAGE)


async def _own(settings: Settings) -> Sequence[CheckResult]:
    foundation = foundation_without_setup(settings)
    try:
        site = Site(settings, foundation.keyring, foundation.roles, SYSTEM.now())
        found = await foundation.store.scan(partial(in_database, site=site, of_features=CHECKS))
        return [
            *(from_shared(each) for each in found),
            *await usernames(foundation.store, settings),
        ]
    finally:
        await foundation.close()


async def _other(settings: Settings, name: str, server: ServerSettings) -> Sequence[Finding]:
    of, engine = DatabaseOf(name, settings, server), open_database(settings, server)

    def read_state(db: Connection) -> Sequence[Finding]:
        return tuple(of_database(db, of, SYSTEM.now()))

    try:
        return await engine.scan(read_state)
    finally:
        await engine.close()


_PER_PAGE = 500
_MOST_NAMED = 20


async def usernames(store: Store, settings: Settings) -> Sequence[CheckResult]:
    """Report usernames that could be taken for a uid, an id or the operator; they keep working."""
    brand, last, found = (settings.brand.name,), 0, list[tuple[User, str]]()

    def page(tx: Transaction, after: int) -> tuple[int, list[tuple[User, str]]]:
        users = tx.users.page(after, _PER_PAGE)
        faults = [(each, _username_fault(tx, each, brand)) for each in users]
        return (users[-1].uid if users else 0), [each for each in faults if each[1]]

    while len(found) < _MOST_NAMED:
        last, more = await store.scan(partial(page, after=last))
        found += more
        if not last:
            break
    return [
        warning(
            f"user {summary(user)}",
            f"not allowed for new accounts: it has to be {fault}",
            f"Change it: valetkey user change uid:{user.uid} --username NAME",
        )
        for user, fault in found[:_MOST_NAMED]
    ]


def _username_fault(tx: Transaction, user: User, brand: tuple[str, ...]) -> str:
    """Return what the username has to be instead; "" if it may stay."""
    if not user.email:
        # A deleted account.
        return ""
    is_taken = tx.users.is_number_taken(user.username, user.uid)
    return (
        "another one: it is the uid of a user" if is_taken else username_fault(user.username, brand)
    )
