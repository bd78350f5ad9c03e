"""Events of groups, declared attributes and claims, and roles at APIs."""

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


@dataclass(frozen=True, slots=True)
class AttributeDeclared(Event):
    """An attribute of accounts was declared, or its declaration changed."""

    attribute: str


@dataclass(frozen=True, slots=True)
class AttributeRemoved(Event):
    """An attribute of accounts is no longer declared; its values are no longer shown."""

    attribute: str


@dataclass(frozen=True, slots=True)
class ClaimDeclared(Event):
    """A claim of tokens was declared, or its declaration changed."""

    claim: str
    source: str


@dataclass(frozen=True, slots=True)
class ClaimRemoved(Event):
    """A claim of tokens is no longer declared."""

    claim: str


@dataclass(frozen=True, slots=True)
class ApiRoleAssigned(Event):
    """A user got a role at an API."""

    uid: int
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class ApiRoleWithdrawn(Event):
    """A user has a role at an API no more, except by a group."""

    uid: int
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class GroupApiRoleAssigned(Event):
    """The members of a group got a role at an API."""

    group: str
    api_id: str
    role: str


@dataclass(frozen=True, slots=True)
class GroupApiRoleWithdrawn(Event):
    """The members of a group have a role at an API no more, except by other means."""

    group: str
    api_id: str
    role: str
