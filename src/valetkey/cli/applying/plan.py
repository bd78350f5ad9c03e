"""From what a file wants to what is done: in one transaction, all of it or nothing.

The plan is what happened in a transaction that was then rolled back, so it can differ from what
will be done only by what others do in between.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from valetkey.authorization.deeds.clients import metadata_of
from valetkey.authorization.deeds.sectors import Sectors
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying import client, user
from valetkey.cli.applying.file import Site, Wanted
from valetkey.cli.applying.step import Step, Unfit, unfit
from valetkey.cli.register.keeper import account_keeper, registrar
from valetkey.cli.register.store import Opened
from valetkey.config.agreement import Problem
from valetkey.config.load import Mistakes


@dataclass(frozen=True, slots=True)
class Prepared:
    """What the file wants, with everything that a transaction may not wait for."""

    source: Path
    users: tuple[user.WantedUser, ...]
    clients: tuple[client.WantedClient, ...]


class _Enough(Exception):
    """Rolls the transaction back with what it did."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("this was the plan")
        self.steps = steps


async def prepare(
    opened: Opened, source: Path, site: Site, progress: Callable[[int], None]
) -> Prepared:
    """Hash new passwords and draw new secrets; `progress` hears of each user that is done.

    Raises Mistakes for passwords that will not do.
    """
    problems: list[Problem] = []
    users: list[user.WantedUser] = []
    for wanted in site.users:

        def look(tx: Transaction, wanted: Wanted = wanted) -> str | None:
            found = user.find(tx, wanted)
            return tx.users.password_hash(found.uid) if found else None

        try:
            stored = await opened.store.read(look)
            users.append(user.prepared(opened, wanted, stored))
        except Unfit as unfit:
            problems += unfit.problems
        progress(1)
    for wanted in site.clients:
        problems += await _sector_problems(opened, wanted)
    if problems:
        raise Mistakes(str(source), problems)
    clients = tuple(client.prepared(opened, wanted) for wanted in site.clients)
    return Prepared(source, tuple(users), clients)


async def _sector_problems(opened: Opened, wanted: Wanted) -> Sequence[Problem]:
    """Why the sector that a client names is not its own; what the rules refuse is not asked for."""
    if not wanted.text("sector_identifier_uri"):
        return ()

    def look(tx: Transaction) -> ClientMetadata:
        there = client.find(tx, wanted)
        before = metadata_of(there) if there is not None else ClientMetadata(name="")
        return client.client_metadata(before, wanted)

    try:
        metadata = await opened.store.read(look)
    except Unfit:
        return ()
    if registrar(opened).rules.faults(metadata):
        return ()
    faults = await Sectors(opened.foundation.outgoing).faults(metadata)
    return unfit(wanted, faults).problems


async def plan(opened: Opened, prepared: Prepared) -> Sequence[Step]:
    """What would be done; nothing is. Raises Mistakes with everything that cannot be."""

    def work(tx: Transaction) -> Sequence[Step]:
        raise _Enough(_carry_out(tx, opened, prepared))

    try:
        return await opened.store.write(work)
    except _Enough as enough:
        return enough.steps


async def carry_out(opened: Opened, prepared: Prepared) -> Sequence[Step]:
    """Do it, all or nothing, and say what was done. Raises Mistakes."""
    return await opened.store.write(lambda tx: _carry_out(tx, opened, prepared))


def _carry_out(tx: Transaction, opened: Opened, prepared: Prepared) -> Sequence[Step]:
    accounts, clients = account_keeper(opened), registrar(opened)
    steps: list[Step] = []
    problems: list[Problem] = []
    for each in prepared.users:
        try:
            steps.append(user.carry_out(tx, accounts, each, opened.now))
        except Unfit as unfit:
            problems += unfit.problems
    for one in prepared.clients:
        try:
            steps.append(client.carry_out(tx, clients, one, opened.now))
        except Unfit as unfit:
            problems += unfit.problems
    if problems:
        raise Mistakes(str(prepared.source), problems)
    return steps
