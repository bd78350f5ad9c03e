"""Provisioning by SCIM: its credentials, and users and groups as one credential names them."""

from dataclasses import dataclass

from valetkey.authorization.model.account.group import Group
from valetkey.authorization.model.account.user import User
from valetkey.kernel.moment import Instant


@dataclass(frozen=True, slots=True)
class ScimCredential:
    """A provisioning program, such as a directory, without its token."""

    id: str
    name: str
    created_at: Instant
    rotated_at: Instant | None = None
    last_used_at: Instant | None = None
    ended_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class ScimUser:
    """A user with the `userName` and `externalId` of one credential; "" where it gave none."""

    user: User
    user_name: str
    external_id: str


@dataclass(frozen=True, slots=True)
class ScimGroup:
    """A group with the `displayName` and `externalId` of one credential; "" where it gave none."""

    group: Group
    display_name: str
    external_id: str
