"""Assign roles at APIs to users and to groups. The functions run inside a transaction."""

from valetkey.authorization.model.api import Api
from valetkey.authorization.model.event.accounts import (
    ApiRoleAssigned,
    ApiRoleWithdrawn,
    GroupApiRoleAssigned,
    GroupApiRoleWithdrawn,
)
from valetkey.authorization.model.user import Group, User
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused


def assign(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a user. False if they have it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleAssigned(user.uid, api.id, role), now)
    return True


def withdraw(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a user, declared or not. False unless it was assigned to the user."""
    if not tx.api_roles.withdraw(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleWithdrawn(user.uid, api.id, role), now)
    return True


def assign_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a group, its members and its subgroups. False if the group has it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleAssigned(group.name, api.id, role), now)
    return True


def withdraw_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a group. False if the group does not have it."""
    if not tx.api_roles.withdraw_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleWithdrawn(group.name, api.id, role), now)
    return True


def require_role(api: Api, role: str) -> None:
    """Raise Refused (not found) if the API does not declare the role."""
    if role not in api.roles:
        raise Refused.because(
            ErrorCode.NOT_FOUND, "the API declares no such role", "api.role.unknown"
        )
