"""Events of groups and their members."""

from dataclasses import dataclass

from valetkey.authorization.model.event.event import Event


@dataclass(frozen=True, slots=True)
class GroupCreated(Event):
    """A group was created, in the group `parent` unless that is ""."""

    group: str
    parent: str


@dataclass(frozen=True, slots=True)
class GroupChanged(Event):
    """A group was renamed, moved into the group `parent`, "" for none, or described otherwise.

    `before` is its name until then.
    """

    group: str
    before: str
    parent: str


@dataclass(frozen=True, slots=True)
class GroupDeleted(Event):
    """A group was deleted; it has no members any more."""

    group: str


@dataclass(frozen=True, slots=True)
class GroupMemberAdded(Event):
    """A user became a direct member of a group."""

    uid: int
    group: str


@dataclass(frozen=True, slots=True)
class GroupMemberRemoved(Event):
    """A user was removed from a group as a direct member."""

    uid: int
    group: str
