"""Events of groups, and of roles at APIs."""

from valetkey.authorization.model.event.event import Event
from valetkey.kernel.words import translatable


class GroupCreated(Event, frozen=True):
    """A group was created, in the group `parent` unless that is ""."""

    sentence = translatable("The group %(group)s was created.")

    group: str
    parent: str


class GroupChanged(Event, frozen=True):
    """A group was renamed, moved into the group `parent`, "" for none, or described otherwise.

    `before` is its name until then.
    """

    sentence = translatable("The group %(group)s was changed.")

    group: str
    before: str
    parent: str


class GroupDeleted(Event, frozen=True):
    """A group was deleted; it has no members any more."""

    sentence = translatable("The group %(group)s was deleted.")

    group: str


class GroupMemberAdded(Event, frozen=True):
    """A user became a direct member of a group."""

    sentence = translatable("%(uid)s was added to the group %(group)s.")

    uid: int
    group: str


class GroupMemberRemoved(Event, frozen=True):
    """A user was removed from a group as a direct member."""

    sentence = translatable("%(uid)s was removed from the group %(group)s.")

    uid: int
    group: str


class ApiRoleAssigned(Event, frozen=True):
    """A user got a role at an API."""

    sentence = translatable("%(uid)s was assigned the role %(role)s at an API.")

    uid: int
    api_id: str
    role: str


class ApiRoleWithdrawn(Event, frozen=True):
    """A user no longer has a role at an API, except by a group."""

    sentence = translatable("The role %(role)s at an API was removed from %(uid)s.")

    uid: int
    api_id: str
    role: str


class GroupApiRoleAssigned(Event, frozen=True):
    """The members of a group got a role at an API."""

    sentence = translatable("The group %(group)s was assigned the role %(role)s at an API.")

    group: str
    api_id: str
    role: str


class GroupApiRoleWithdrawn(Event, frozen=True):
    """The members of a group no longer have a role at an API, except by other means."""

    sentence = translatable("The role %(role)s at an API was removed from the group %(group)s.")

    group: str
    api_id: str
    role: str
