"""Log revocations in a file outside the database, within two seconds."""

import asyncio
from functools import partial
from pathlib import Path

from msgspec import Struct

from valetkey.authorization.storage.administration.restoration import RevocationPage
from valetkey.authorization.storage.revocation_log import RevocationLog
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.database.engine import DatabaseUnavailable, Overloaded
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.runtime import Runtime
from valetkey.web import log

_EVERY = 2.0
_AT_ONCE = 1_000


async def log_revocations(store: Store, endings: RevocationLog) -> None:
    """Append every revocation that the database has and the file lacks. Raises OSError."""
    at, after = endings.read_from, ""
    while True:
        page = await store.scan(partial(_page, at, after))
        await asyncio.to_thread(endings.note, page.found)
        if page.last is None:
            return
        at, after = page.last


def _page(at: Instant, after: str, tx: Transaction) -> RevocationPage:
    return tx.restoration.revocations(at, after, _AT_ONCE)


class RevocationLogWriter(Struct, frozen=True):
    """Keep the revocation log beside the keyring up to date while the server runs."""

    store: Store
    file: Path
    runtime: Runtime

    async def run(self) -> None:
        """Log revocations until cancelled; `doctor` reports a folder that is not writable."""
        try:
            endings = RevocationLog(self.file)
        except OperatorError:
            return
        mark = None
        while True:
            await asyncio.sleep(_EVERY)
            now = self.store.engine.mark()
            if now is not None and now == mark:
                continue
            try:
                await log_revocations(self.store, endings)
                mark = now
            except (DatabaseUnavailable, Overloaded, OSError) as failure:
                cause = f"RevocationLogWriter.run: {type(failure).__name__}: {failure}"
                log.throttled("error", "background.failed", cause, job="RevocationLogWriter.run")
