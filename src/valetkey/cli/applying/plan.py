"""Plan or apply what a file declares in one transaction; prune what the file owned before.

A file owns what it created, or adopted when the operator said so. Objects created by hand are never
pruned; neither are those of files with another name.

The plan is made by a transaction that is rolled back. Applying can therefore differ from it only by
changes that others make in between.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.admin.server import change_brand
from valetkey.authorization.actions.clients import Sectors, metadata_of
from valetkey.authorization.actions.groups import withdraw, withdraw_group
from valetkey.authorization.applying import (
    Action,
    Declared,
    DeclaredEntry,
    DeclaredKind,
    InvalidEntry,
    Step,
    invalid_entry,
)
from valetkey.authorization.features import DECLARED_KINDS
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.user import LARGEST_UID, Uid
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.storage.administration import AppliedKind, AppliedObject
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.applying import objects
from valetkey.cli.applying.file import DeclaredObjects
from valetkey.cli.register.store import OpenedStore, accounts, missing_groups, registrar
from valetkey.config.agreement import Problem
from valetkey.config.load import OperatorErrors
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import OperatorError, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import fresh_id

_OF_FEATURES = {kind.name: kind for kind in DECLARED_KINDS}
_SWITCHED, _SWITCHED_LATE = (
    tuple(
        kind.name
        for kind in DECLARED_KINDS
        if kind.switch is not None and kind.before_users is is_early
    )
    for is_early in (False, True)
)
_REMOVED = tuple(kind.name for kind in reversed(DECLARED_KINDS) if kind.remove is not None)
_DISABLED = frozenset({AppliedKind.USER, AppliedKind.CLIENT, *_SWITCHED, *_SWITCHED_LATE})
"""Kinds that are disabled, and enabled when the file declares them again. Others are deleted."""
_DELETED = (
    *(AppliedKind.ROLE, AppliedKind.MEMBER, *_REMOVED),
    *(AppliedKind.GROUP, AppliedKind.BRAND),
)
_ORDER = (*_DELETED, *_SWITCHED, AppliedKind.CLIENT, *_SWITCHED_LATE, AppliedKind.USER)
"""The order in which kinds are pruned. What a feature that was taken out left is kept."""

_Key = tuple[str, str, str]


class Ownership(Struct, frozen=True):
    """The objects that a named file owns; `tx` holds the lock of the register."""

    tx: Transaction
    opened: OpenedStore
    name: str
    owned: Mapping[_Key, AppliedObject]

    def record(self, entry: DeclaredEntry, step: Step, *, adopt: bool) -> Step:
        """Own what the step created; enable what was pruned and is declared again."""
        revived = False
        for declared_object in step.declares:
            before = self.owned.get(_key(declared_object))
            if before is not None and before.pruned_at is not None:
                if "disabled" not in entry.values:
                    name = self._switch(declared_object.kind, declared_object.id, before.pruned_at)
                    revived = revived or name is not None
                self._put(declared_object)
            elif declared_object.is_new or (adopt and before is None):
                self._put(declared_object)
        if not revived:
            return step
        action = Action.CHANGE if step.action is Action.KEEP else step.action
        return replace(step, action=action, fields=(*step.fields, "enabled"))

    def prune(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Remove or disable what the file owns but does not declare. Raises InvalidEntry."""
        declared = {_key(declared_object) for step in steps for declared_object in step.declares}
        left = sorted(
            (
                applied_object
                for key, applied_object in self.owned.items()
                if key not in declared
                and applied_object.pruned_at is None
                and applied_object.kind in _ORDER
            ),
            key=lambda applied_object: (
                _ORDER.index(applied_object.kind),
                applied_object.id,
                applied_object.part,
            ),
        )
        # Subgroups first: a group that contains groups is kept.
        parents = [
            applied_object
            for applied_object in left
            if applied_object.kind == AppliedKind.GROUP and self._contains(applied_object)
        ]
        for applied_object in (
            *(applied_object for applied_object in left if applied_object not in parents),
            *parents,
        ):
            step = self._remove(applied_object)
            if step is not None:
                yield step

    def _contains(self, applied_object: AppliedObject) -> bool:
        group = self.tx.groups.find_by_id(applied_object.id)
        return group is not None and self.tx.groups.has_groups(group)

    def _put(self, declared_object: Declared) -> None:
        self.tx.applied.claim(
            AppliedObject(
                str(declared_object.kind), declared_object.id, declared_object.part, self.name
            )
        )

    def _remove(self, applied_object: AppliedObject) -> Step | None:
        kind = applied_object.kind
        try:
            if kind in _DISABLED:
                name = self._switch(kind, applied_object.id)
                if name is not None:
                    self.tx.applied.claim(replace(applied_object, pruned_at=self.opened.now))
                    return Step(Action.REMOVE, kind, name, ("disabled",))
                # Disabled or deleted by an operator.
                self.tx.applied.release(kind, applied_object.id, applied_object.part)
                return None
            removers: Mapping[str, Callable[[AppliedObject], Step | None]] = {
                AppliedKind.ROLE: self._role,
                AppliedKind.MEMBER: self._member,
                AppliedKind.GROUP: self._group,
                AppliedKind.BRAND: self._brand,
            }
            step = removers.get(kind, self._of_feature)(applied_object)
        except Refused as refused:
            name = f"{kind} {applied_object.id}"
            why = refused.refusal.description
            raise InvalidEntry([Problem(name, "it cannot be pruned", why)]) from None
        if step is None or step.action is Action.REMOVE:
            self.tx.applied.release(kind, applied_object.id, applied_object.part)
        return step

    def _switch(self, kind: str, object_id: str, pruned_at: Instant | None = None) -> str | None:
        """Disable an enabled object, or enable one that pruning disabled at this time.

        Return its name; None if nothing changed, such as for an object that an administrator
        disabled.
        """
        tx, now, on = self.tx, self.opened.now, pruned_at is not None
        match kind:
            case AppliedKind.USER:
                user = tx.users.find_to_change(Uid(int(object_id)))
                if user is None or user.disabled_at != pruned_at:
                    return None
                users = accounts(self.opened)
                done = (users.enable if on else users.disable)(tx, user, now)
                return user.username if done else None
            case AppliedKind.CLIENT:
                client = tx.clients.find_to_change(object_id)
                if client is None or client.disabled_at != pruned_at:
                    return None
                clients = registrar(self.opened)
                done = (clients.enable if on else clients.disable)(tx, client, now)
                return client.id if done else None
            case _:
                switch = _OF_FEATURES[kind].switch
                if switch is None:
                    return None
                services = self.opened.foundation.services
                return switch(services, tx, object_id, pruned_at, now)

    def _role(self, applied_object: AppliedObject) -> Step | None:
        tx, now = self.tx, self.opened.now
        role, sort, holder = applied_object.part.split(" ", 2)
        api = tx.apis.find(applied_object.id)
        if api is None:
            return None
        if sort == "user":
            user = tx.users.find_to_change(Uid(int(holder)))
            if user is None or not withdraw(tx, user, api, role, now):
                return None
            name = user.username
        else:
            group = tx.groups.find_by_id(holder)
            if group is None or not withdraw_group(tx, group, api, role, now):
                return None
            name = group.name
        return Step(Action.REMOVE, "role", f"{role} at {api.identifier}", (f"{sort} {name}",))

    def _member(self, applied_object: AppliedObject) -> Step | None:
        group = self.tx.groups.find_by_id(applied_object.id)
        user = self.tx.users.find_to_change(Uid(int(applied_object.part.removeprefix("user "))))
        if group is None or user is None:
            return None
        if not groups.remove_member(self.tx, user, group, self.opened.now):
            return None
        return Step(Action.REMOVE, "member", user.username, (f"of group {group.name}",))

    def _brand(self, applied_object: AppliedObject) -> Step | None:
        field = next((field for field in self.tx.brand.all() if field == applied_object.id), None)
        if field is None:
            return None
        opened = self.opened
        settings = opened.settings.brand
        change_brand(self.tx, opened.operator, settings, {field: None}, opened.now)
        return Step(Action.REMOVE, "brand", field, ("reset to the setting",))

    def _of_feature(self, applied_object: AppliedObject) -> Step | None:
        remove = _OF_FEATURES[applied_object.kind].remove
        if remove is None or not remove(self.tx, applied_object.id, self.opened.now):
            return None
        return Step(Action.REMOVE, applied_object.kind, applied_object.id, ("deleted",))

    def _group(self, applied_object: AppliedObject) -> Step | None:
        tx = self.tx
        group = tx.groups.find_by_id(applied_object.id)
        if group is None or not tx.groups.hold(group):
            return None
        if (
            tx.groups.has_groups(group)
            or tx.groups.size(group, 1)
            or tx.api_roles.group_has_any(group)
        ):
            why = "kept: it has members, groups or roles that this file did not give it"
            return Step(Action.KEEP, "group", group.name, costs=(why,))
        groups.delete(tx, group, self.opened.now)
        return Step(Action.REMOVE, "group", group.name, ("deleted",))


def ownership(tx: Transaction, opened: OpenedStore, name: str) -> Ownership:
    """Return what the file of this name owns; nothing for a file without a name."""
    owned = tx.applied.of_file(name) if name else ()
    return Ownership(
        tx, opened, name, {_key(applied_object): applied_object for applied_object in owned}
    )


def affected_users(owner: Ownership) -> Iterator[int]:
    """Return the users whom pruning may disable, or whose groups or roles it may change."""
    for kind, object_id, part in owner.owned:
        if kind == AppliedKind.USER:
            yield int(object_id)
        elif "user " in part:
            yield int(part.rpartition("user ")[2])


def _key(site_object: AppliedObject | Declared) -> _Key:
    return (str(site_object.kind), site_object.id, site_object.part)


class Prepared(Struct, frozen=True):
    """The content of the file, with all values that are prepared outside the transaction."""

    source: Path
    users: tuple[objects.WantedUser, ...]
    clients: tuple[objects.WantedClient, ...]
    groups: tuple[tuple[DeclaredEntry, str], ...]
    """Each group with the id to use if it is new."""
    of_features: tuple[
        tuple[DeclaredKind, DeclaredEntry, Callable[[Transaction, Instant], Step]], ...
    ]
    """Each object of a feature, with its kind and what applies it."""
    site: DeclaredObjects
    brand: objects.WantedBrand | None
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
    users: list[objects.WantedUser] = []
    for entry in site.users:

        def read_state(tx: Transaction, entry: DeclaredEntry = entry) -> str | None:
            user = objects.find_user(tx, entry)
            return tx.users.password_hash(user.uid) if user else None

        try:
            stored = await opened.store.read(read_state)
            users.append(objects.prepared_user(opened, entry, stored))
        except InvalidEntry as unfit:
            problems += unfit.problems
        progress(1)
    for entry in site.clients:
        problems += await _sector_problems(opened, entry)
    brand = None
    try:
        if site.brand is not None:
            brand = await objects.prepared_brand(opened, source.parent, site.brand)
    except InvalidEntry as unfit:
        problems += unfit.problems
    if problems:
        raise OperatorErrors(str(source), problems)
    clients = tuple(objects.prepared_client(opened, entry) for entry in site.clients)
    random = opened.runtime.random
    groups = tuple((entry, fresh_id("gr", random)) for entry in site.groups)
    of_features = tuple(
        (kind, entry, kind.prepare(opened.foundation.services, entry))
        for kind in DECLARED_KINDS
        for entry in site.of_features[kind.name]
    )
    return Prepared(
        source,
        tuple(users),
        clients,
        groups,
        of_features,
        site,
        brand,
        adopts=adopts,
        prunes=prunes,
    )


async def _sector_problems(opened: OpenedStore, entry: DeclaredEntry) -> Sequence[Problem]:
    """Fetch a client's sector identifier and check it, unless its metadata is invalid anyway."""

    def read_state(tx: Transaction) -> tuple[Client | None, ClientMetadata]:
        there = objects.find_client(tx, entry)
        before = metadata_of(there) if there is not None else ClientMetadata(name="")
        return there, objects.client_metadata(before, entry)

    try:
        there, metadata = await opened.store.read(read_state)
    except InvalidEntry:
        return ()
    sectors = Sectors(opened.foundation.outgoing)
    faults = await sectors.faults_within(registrar(opened).rules, metadata, there)
    return invalid_entry(entry, faults).problems


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
    if site.name or any((site.groups, site.clients, site.roles, site.brand)):
        tx.apis.hold_all()
    owner = ownership(tx, opened, site.name)
    owned = {applied_object.kind for applied_object in owner.owned.values()}
    for kind in DECLARED_KINDS:
        if site.of_features[kind.name] or kind.name in owned:
            kind.hold(tx)
    _hold_users(tx, prepared, owner)
    now = opened.now
    early, late = (
        [
            (entry, partial(apply_object, tx, now))
            for kind, entry, apply_object in prepared.of_features
            if kind.before_users is is_early
        ]
        for is_early in (True, False)
    )
    todo: list[tuple[DeclaredEntry, Callable[[], Step]]] = [
        *early,
        *((x.entry, partial(objects.apply_user, tx, users, x, now)) for x in prepared.users),
        *((x, partial(objects.apply_group, tx, x, fresh, now)) for x, fresh in prepared.groups),
        *((x.entry, partial(objects.apply_client, tx, clients, x, now)) for x in prepared.clients),
        *((x, partial(objects.assign_roles, tx, x, now)) for x in site.roles),
        *late,
    ]
    if brand := prepared.brand:
        todo.insert(0, (brand.entry, partial(objects.apply_brand, tx, opened, brand, now)))
    for entry, do in todo:
        try:
            step = do()
            steps.append(owner.record(entry, step, adopt=prepared.adopts) if site.name else step)
        except InvalidEntry as unfit:
            problems += unfit.problems
    if prepared.prunes and not problems:
        try:
            steps += owner.prune(steps)
        except InvalidEntry as unfit:
            problems += unfit.problems
    if problems:
        raise OperatorErrors(str(prepared.source), problems)
    return _with_remarks(tx, [entry for entry, _ in todo], steps)


def _with_remarks(
    tx: Transaction, entries: Sequence[DeclaredEntry], steps: Sequence[Step]
) -> Sequence[Step]:
    """Return the steps, those of entries first, with remarks about groups that do not exist."""
    remarks = (
        missing_groups(tx, cast("Sequence[str]", entry.values.get("required_groups", ())))
        for entry in entries
    )
    return [
        replace(step, costs=(*step.costs, *more))
        for step, more in zip(steps, chain(remarks, repeat(())), strict=False)
    ]


def _hold_users(tx: Transaction, prepared: Prepared, owner: Ownership) -> None:
    """Lock every user that the file names or owns, by uid and before any row."""
    uids = set(affected_users(owner)) if prepared.prunes else set[int]()
    for user in prepared.users:
        there = objects.find_user(tx, user.entry)
        if there is not None or 0 < user.uid <= LARGEST_UID:
            uids.add(user.uid if there is None else there.uid)
    for entry, key in (
        *((group, "members") for group in prepared.site.groups),
        *((role, "users") for role in prepared.site.roles),
    ):
        for name in cast("Sequence[str]", entry.values.get(key, ())):
            there = tx.users.find_by_username(name)
            if there is not None:
                uids.add(there.uid)
    for uid in sorted(uids):
        tx.users.hold_alone(Uid(uid))
