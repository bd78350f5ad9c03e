"""Plan or apply the changes that a file declares: in one transaction, all or none.

The plan is made by a transaction that is rolled back. Applying can therefore differ from it only by
changes that others make in between.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.clients import metadata_of
from valetkey.authorization.actions.sectors import Sectors
from valetkey.authorization.applying import (
    Action,
    DeclaredEntry,
    DeclaredKind,
    InvalidEntry,
    Step,
    invalid_entry,
)
from valetkey.authorization.features import DECLARED_KINDS
from valetkey.authorization.model.account.user import LARGEST_UID, Uid
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying import client, group, user
from valetkey.cli.applying.file import DeclaredObjects
from valetkey.cli.applying.ownership import Ownership, affected_users, ownership
from valetkey.cli.register.services import accounts, registrar
from valetkey.cli.register.store import OpenedStore
from valetkey.config.agreement import Problem
from valetkey.config.load import OperatorErrors
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError
from valetkey.kernel.secret import fresh_id


class Prepared(Struct, frozen=True):
    """The content of the file, with all values that are prepared outside the transaction."""

    source: Path
    users: tuple[user.WantedUser, ...]
    clients: tuple[client.WantedClient, ...]
    groups: tuple[tuple[DeclaredEntry, str], ...]
    """Each group with the id to use if it is new."""
    of_features: tuple[
        tuple[DeclaredKind, DeclaredEntry, Callable[[Transaction, Instant], Step]], ...
    ]
    """Each object of a feature, with its kind and what applies it."""
    site: DeclaredObjects
    adopts: bool
    """Whether the file takes ownership of declared objects that it did not create."""
    prunes: bool
    """Whether to remove what the file owns but does not declare."""


class _DryRun(Exception):
    """Rolls back the transaction of a plan and carries its steps."""

    def __init__(self, steps: Sequence[Step]) -> None:
        super().__init__("this was the plan")
        self.steps = steps


async def prepare(
    opened: OpenedStore,
    source: Path,
    site: DeclaredObjects,
    progress: Callable[[int], None],
    *,
    adopts: bool = False,
    prunes: bool = False,
) -> Prepared:
    """Hash new passwords and draw new secrets; `progress` is called after each user.

    Raises OperatorErrors for unacceptable passwords and sector identifiers.
    """
    problems: list[Problem] = []
    users: list[user.WantedUser] = []
    for wanted in site.users:

        def read_state(tx: Transaction, wanted: DeclaredEntry = wanted) -> str | None:
            found = user.find(tx, wanted)
            return tx.users.password_hash(found.uid) if found else None

        try:
            stored = await opened.store.read(read_state)
            users.append(user.prepared(opened, wanted, stored))
        except InvalidEntry as unfit:
            problems += unfit.problems
        progress(1)
    for wanted in site.clients:
        problems += await _sector_problems(opened, wanted)
    if problems:
        raise OperatorErrors(str(source), problems)
    clients = tuple(client.prepared(opened, wanted) for wanted in site.clients)
    random = opened.runtime.random
    groups = tuple((wanted, fresh_id("gr", random)) for wanted in site.groups)
    of_features = tuple(
        (kind, wanted, kind.prepare(opened.foundation.services, wanted))
        for kind in DECLARED_KINDS
        for wanted in site.of_features[kind.name]
    )
    return Prepared(
        source, tuple(users), clients, groups, of_features, site, adopts=adopts, prunes=prunes
    )


async def _sector_problems(opened: OpenedStore, wanted: DeclaredEntry) -> Sequence[Problem]:
    """Fetch a client's sector identifier and check it, unless its metadata is invalid anyway."""

    def read_state(tx: Transaction) -> tuple[Client | None, ClientMetadata]:
        there = client.find(tx, wanted)
        before = metadata_of(there) if there is not None else ClientMetadata(name="")
        return there, client.client_metadata(before, wanted)

    try:
        there, metadata = await opened.store.read(read_state)
    except InvalidEntry:
        return ()
    sectors = Sectors(opened.foundation.outgoing)
    faults = await sectors.faults_within(registrar(opened).rules, metadata, there)
    return invalid_entry(wanted, faults).problems


async def plan(opened: OpenedStore, prepared: Prepared) -> Sequence[Step]:
    """Return what would be done, without doing it. Raises OperatorErrors with every problem."""

    def try_out(tx: Transaction) -> Sequence[Step]:
        raise _DryRun(_apply_all(tx, opened, prepared))

    try:
        return await opened.store.write(try_out)
    except _DryRun as enough:
        return enough.steps


async def apply_plan(
    opened: OpenedStore, prepared: Prepared, planned: Sequence[Step] = ()
) -> Sequence[Step]:
    """Apply everything or nothing, and return what was done.

    Raises OperatorErrors, and OperatorError if more would be pruned than was `planned`.
    """
    agreed = {step.line for step in planned if step.action is Action.REMOVE}

    def apply(tx: Transaction) -> Sequence[Step]:
        steps = _apply_all(tx, opened, prepared)
        more = [
            step.line for step in steps if step.action is Action.REMOVE and step.line not in agreed
        ]
        if more:
            raise OperatorError(
                f"nothing was changed: {more[0]!r} is not in the plan; run it again"
            )
        return steps

    return await opened.store.write(apply)


def _apply_all(tx: Transaction, opened: OpenedStore, prepared: Prepared) -> Sequence[Step]:
    users, clients = accounts(opened), registrar(opened)
    steps: list[Step] = []
    problems: list[Problem] = []
    # First: the register is locked before any user, and clients may have the scopes of APIs.
    site = prepared.site
    if site.name or any((site.groups, site.clients, site.roles)):
        tx.apis.hold_all()
    owner = ownership(tx, opened, site.name)
    owned = {each.kind for each in owner.owned.values()}
    for kind in DECLARED_KINDS:
        if site.of_features[kind.name] or kind.name in owned:
            kind.hold(tx)
    _hold_users(tx, prepared, owner)
    now = opened.now
    early, late = (
        [
            (wanted, partial(apply_object, tx, now))
            for kind, wanted, apply_object in prepared.of_features
            if kind.before_users is is_early
        ]
        for is_early in (True, False)
    )
    todo: list[tuple[DeclaredEntry, Callable[[], Step]]] = [
        *early,
        *((x.wanted, partial(user.apply_user, tx, users, x, now)) for x in prepared.users),
        *((x, partial(group.apply_group, tx, x, fresh, now)) for x, fresh in prepared.groups),
        *((x.wanted, partial(client.apply_client, tx, clients, x, now)) for x in prepared.clients),
        *((x, partial(group.assign_roles, tx, x, now)) for x in site.roles),
        *late,
    ]
    for wanted, do in todo:
        try:
            step = do()
            steps.append(owner.record(wanted, step, adopt=prepared.adopts) if site.name else step)
        except InvalidEntry as unfit:
            problems += unfit.problems
    if prepared.prunes and not problems:
        try:
            steps += owner.prune(steps)
        except InvalidEntry as unfit:
            problems += unfit.problems
    if problems:
        raise OperatorErrors(str(prepared.source), problems)
    return steps


def _hold_users(tx: Transaction, prepared: Prepared, owner: Ownership) -> None:
    """Lock every user that the file names or owns, by uid and before any row."""
    uids = set(affected_users(owner)) if prepared.prunes else set[int]()
    for each in prepared.users:
        there = user.find(tx, each.wanted)
        if there is not None or 0 < each.uid <= LARGEST_UID:
            uids.add(each.uid if there is None else there.uid)
    for wanted, key in (
        *((each, "members") for each in prepared.site.groups),
        *((each, "users") for each in prepared.site.roles),
    ):
        for name in cast("Sequence[str]", wanted.given.get(key, ())):
            there = tx.users.find_by_username(name)
            if there is not None:
                uids.add(there.uid)
    for uid in sorted(uids):
        tx.users.hold_alone(Uid(uid))
