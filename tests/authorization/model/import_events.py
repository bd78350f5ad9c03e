"""What happens when users are imported, once each."""

from tests.support.harness import Harness
from valetkey.authorization.actions.admin.permissions import CommandLine
from valetkey.authorization.imports.jobs import UserImporter
from valetkey.authorization.imports.model import ImportState
from valetkey.authorization.imports.rules.users import ImportUpload, ImportWork
from valetkey.kernel.runtime import SYSTEM, Runtime

_HASH = "pbkdf2_sha256$1000$c2FsdA$H6JYY64V0SDtmN+fhcPP8OOXlkn6yZvwPPo+7J55GNs="


async def imports(it: Harness, secrets: set[str]) -> None:
    """A file with one user is checked and imported."""
    store, now = it.foundation.store, it.clock.now
    uploads = ImportUpload(store, SYSTEM.random, 10)
    runtime = Runtime(lambda: it.clock.now, SYSTEM.random)
    worker = UserImporter(store, ImportWork(it.foundation.accounts()), runtime)
    file = f"username,email,password_hash\ncarl,carl@example.com,{_HASH}\n"
    import_id = await uploads.receive(CommandLine(), "users.csv", file.encode(), now)
    assert await worker.process_stage()
    assert await uploads.move(CommandLine(), import_id, ImportState.IMPORTING, now)
    assert await worker.process_stage()
    secrets.add(_HASH)
