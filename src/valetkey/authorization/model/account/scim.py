"""Provisioning by SCIM: its credentials, and users and groups as one credential names them."""

from msgspec import Struct

from valetkey.authorization.model.account.user import User
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


class ScimCredential(Struct, frozen=True):
    """A provisioning program, such as a directory, without its token."""

    id: str
    name: str
    created_at: Instant
    rotated_at: Instant | None = None
    last_used_at: Instant | None = None
    ended_at: Instant | None = None


class ScimLeftOut(Struct, frozen=True):
    """How many users and groups have values that one credential sent and that were not kept."""

    credential: str
    attributes: str
    count: int


class ScimUser(Struct, frozen=True):
    """A user with the `userName` and `externalId` of one credential; "" where it gave none.

    `left_out` names the attributes whose last values could not be kept, "" for none. `marks` holds
    `type` and `primary` of the values that were kept, by attribute, as JSON.
    """

    user: User
    user_name: str
    external_id: str
    left_out: str = ""
    marks: str = "{}"


class ScimGroup(Struct, frozen=True):
    """A group with the `displayName` and `externalId` of one credential; "" where it gave none.

    `left_out` names the attributes whose last values could not be kept, "" for none.
    """

    group: Group
    display_name: str
    external_id: str
    left_out: str = ""
