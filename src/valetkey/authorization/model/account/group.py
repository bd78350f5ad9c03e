"""Groups of users."""

from dataclasses import dataclass

from valetkey.kernel.moment import Instant

NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}"
"""The pattern of a group's name, which apps receive."""

MOST_OF_USER = 200
"""Maximum number of groups of which a user is a direct member."""


@dataclass(frozen=True, slots=True)
class Group:
    """A group. Its members are also members of the group `parent`, "" for none."""

    id: str
    name: str
    description: str
    parent: str
    created_at: Instant


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A direct member of a group."""

    uid: int
    username: str
    name: str
    since: Instant
