"""Beginning with empty databases in place of known ones that are missing: `--new`."""

import asyncio
from collections.abc import Sequence

from valetkey.cli import say
from valetkey.config.agreement import servers
from valetkey.config.installation import forget_missing
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import Mistake


def forget_missing_databases(settings: Settings, names: Sequence[str]) -> None:
    """Forget the missing databases of the servers of these names.

    Raises Mistake where none is missing: left in a unit file, the option would undo what it is for.
    """
    asked = [(name, server) for name, server in servers(settings) if name in names]
    forgotten = [name for name, each in asked if asyncio.run(forget_missing(settings, each))]
    if not forgotten:
        raise Mistake("no known database is missing; leave --new out")
    for name in forgotten:
        say.note(f"{name}: begins with an empty database")
