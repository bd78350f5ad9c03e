"""Record what a file of `valetkey apply` owns, and prune what it no longer declares.

A file owns what it created, or adopted when the operator said so. Objects created by hand are never
pruned; neither are those of files with another name.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions import groups
from valetkey.authorization.actions.api_roles import withdraw, withdraw_group
from valetkey.authorization.applying import Action, Declared, DeclaredEntry, InvalidEntry, Step
from valetkey.authorization.features import DECLARED_KINDS
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.storage.register.applied import AppliedKind, AppliedObject
from valetkey.authorization.storage.transaction import Transaction
from valetkey.cli.register.services import accounts, registrar
from valetkey.cli.register.store import OpenedStore
from valetkey.config.agreement import Problem
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace

_OF_FEATURES = {each.name: each for each in DECLARED_KINDS}
_SWITCHED, _SWITCHED_LATE = (
    tuple(
        each.name
        for each in DECLARED_KINDS
        if each.switch is not None and each.before_users is is_early
    )
    for is_early in (False, True)
)
_REMOVED = tuple(each.name for each in reversed(DECLARED_KINDS) if each.remove is not None)
_DISABLED = frozenset({AppliedKind.USER, AppliedKind.CLIENT, *_SWITCHED, *_SWITCHED_LATE})
"""Kinds that are disabled, and enabled when the file declares them again. Others are deleted."""
_DELETED = (AppliedKind.ROLE, AppliedKind.MEMBER, *_REMOVED, AppliedKind.GROUP)
_ORDER = (*_DELETED, *_SWITCHED, AppliedKind.CLIENT, *_SWITCHED_LATE, AppliedKind.USER)
"""The order in which kinds are pruned. What a feature that was taken out left is kept."""

_Key = tuple[str, str, str]


class Ownership(Struct, frozen=True):
    """The objects that a named file owns; `tx` holds the lock of the register."""

    tx: Transaction
    opened: OpenedStore
    name: str
    owned: Mapping[_Key, AppliedObject]

    def record(self, wanted: DeclaredEntry, step: Step, *, adopt: bool) -> Step:
        """Own what the step created; enable what was pruned and is declared again."""
        revived = False
        for each in step.declares:
            before = self.owned.get(_key(each))
            if before is not None and before.pruned_at is not None:
                if "disabled" not in wanted.given:
                    name = self._switch(each.kind, each.id, before.pruned_at)
                    revived = revived or name is not None
                self._put(each)
            elif each.is_new or (adopt and before is None):
                self._put(each)
        if not revived:
            return step
        action = Action.CHANGE if step.action is Action.KEEP else step.action
        return replace(step, action=action, fields=(*step.fields, "enabled"))

    def prune(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Remove or disable what the file owns but does not declare. Raises InvalidEntry."""
        declared = {_key(each) for step in steps for each in step.declares}
        left = sorted(
            (
                each
                for key, each in self.owned.items()
                if key not in declared and each.pruned_at is None and each.kind in _ORDER
            ),
            key=lambda each: (_ORDER.index(each.kind), each.id, each.part),
        )
        # Subgroups first: a group that contains groups is kept.
        parents = [each for each in left if each.kind == AppliedKind.GROUP and self._contains(each)]
        for each in (*(each for each in left if each not in parents), *parents):
            step = self._remove(each)
            if step is not None:
                yield step

    def _contains(self, each: AppliedObject) -> bool:
        group = self.tx.groups.find_by_id(each.id)
        return group is not None and self.tx.groups.has_groups(group)

    def _put(self, each: Declared) -> None:
        self.tx.applied.claim(AppliedObject(str(each.kind), each.id, each.part, self.name))

    def _remove(self, each: AppliedObject) -> Step | None:
        kind = each.kind
        try:
            if kind in _DISABLED:
                name = self._switch(kind, each.id)
                if name is not None:
                    self.tx.applied.claim(replace(each, pruned_at=self.opened.now))
                    return Step(Action.REMOVE, kind, name, ("disabled",))
                # Disabled or deleted by an operator.
                self.tx.applied.release(kind, each.id, each.part)
                return None
            removers: Mapping[str, Callable[[AppliedObject], Step | None]] = {
                AppliedKind.ROLE: self._role,
                AppliedKind.MEMBER: self._member,
                AppliedKind.GROUP: self._group,
            }
            step = removers.get(kind, self._of_feature)(each)
        except Refused as refused:
            name = f"{kind} {each.id}"
            why = refused.refusal.description
            raise InvalidEntry([Problem(name, "it cannot be pruned", why)]) from None
        if step is None or step.action is Action.REMOVE:
            self.tx.applied.release(kind, each.id, each.part)
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

    def _role(self, each: AppliedObject) -> Step | None:
        tx, now = self.tx, self.opened.now
        role, sort, holder = each.part.split(" ", 2)
        api = tx.apis.find(each.id)
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

    def _member(self, each: AppliedObject) -> Step | None:
        group = self.tx.groups.find_by_id(each.id)
        user = self.tx.users.find_to_change(Uid(int(each.part.removeprefix("user "))))
        if group is None or user is None:
            return None
        if not groups.remove_member(self.tx, user, group, self.opened.now):
            return None
        return Step(Action.REMOVE, "member", user.username, (f"of group {group.name}",))

    def _of_feature(self, each: AppliedObject) -> Step | None:
        remove = _OF_FEATURES[each.kind].remove
        if remove is None or not remove(self.tx, each.id, self.opened.now):
            return None
        return Step(Action.REMOVE, each.kind, each.id, ("deleted",))

    def _group(self, each: AppliedObject) -> Step | None:
        tx = self.tx
        group = tx.groups.find_by_id(each.id)
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
    return Ownership(tx, opened, name, {_key(each): each for each in owned})


def affected_users(owner: Ownership) -> Iterator[int]:
    """Return the users whom pruning may disable, or whose groups or roles it may change."""
    for kind, object_id, part in owner.owned:
        if kind == AppliedKind.USER:
            yield int(object_id)
        elif "user " in part:
            yield int(part.rpartition("user ")[2])


def _key(each: AppliedObject | Declared) -> _Key:
    return (str(each.kind), each.id, each.part)
