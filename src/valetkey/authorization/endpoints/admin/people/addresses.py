"""Where the pages about people are."""

from valetkey.authorization.model.account.user import Uid

USERS = "/admin/users"
USER = "/admin/users/{uid}"
ACT = "/admin/users/{uid}/{act}"
ROLES = "/admin/roles"
OWNER = "/admin/owner"
OWNER_ACCOUNT = "/admin/owner/account"


def user_address(uid: Uid) -> str:
    """The page about this person."""
    return f"{USERS}/{uid}"
