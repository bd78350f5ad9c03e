"""Roles: what a person may do with this server beyond their own account (security 36)."""

from enum import StrEnum


class Role(StrEnum):
    """Each may do what is said of it; nobody has a role by default."""

    OWNER = "owner"  # everything, roles included
    ADMINISTRATOR = "administrator"  # everything but roles
    SUPPORT = "support"  # read, and help people back into their accounts
    AUDITOR = "auditor"  # read
