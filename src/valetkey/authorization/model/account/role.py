"""Roles: what a user may administer."""

from enum import StrEnum


class Role(StrEnum):
    """A role; users have none by default."""

    OWNER = "owner"  # everything, including roles
    ADMINISTRATOR = "administrator"  # everything except roles
    SUPPORT = "support"  # read, and help users regain access
    AUDITOR = "auditor"  # read
