"""Groups of users."""

from msgspec import Struct

from valetkey.kernel.moment import Instant

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
"""The pattern of a group's name, which apps receive."""

MOST_OF_USER = 200
"""Maximum number of groups of which a user is a direct member."""


class Group(Struct, frozen=True):
    """A group. Its members are also members of the group `parent`, "" for none."""

    id: str
    name: str
    description: str
    parent: str
    created_at: Instant


class GroupMember(Struct, frozen=True):
    """A direct member of a group."""

    uid: int
    username: str
    name: str
    since: Instant
