"""What can be done with an account, and what each act needs."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from valetkey.authorization.deeds.admin.permissions import Permission


class UserAct(StrEnum):
    """What can be done; each is the end of an address and has a question of its own."""

    SIGN_OUT = "sign-out"
    RESET_MAIL = "reset-mail"
    RESET_FACTORS = "reset-factors"
    VERIFY_EMAIL = "verify-email"
    LET_REGISTER = "let-register"
    STOP_REGISTER = "stop-register"
    END_APP = "end-app"
    DISABLE = "disable"
    ENABLE = "enable"
    ROLE = "role"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Rule:
    """What an act needs, and by which event it is known that it happened."""

    permission: Permission
    event: str
    steps_up: bool = False


RULES: Mapping[UserAct, Rule] = MappingProxyType(
    {
        UserAct.SIGN_OUT: Rule(Permission.RESET, "session.ended"),
        UserAct.RESET_MAIL: Rule(Permission.RESET, "password_reset.requested", steps_up=True),
        UserAct.RESET_FACTORS: Rule(Permission.RESET, "factors.removed", steps_up=True),
        UserAct.VERIFY_EMAIL: Rule(Permission.PEOPLE, "user.changed"),
        UserAct.LET_REGISTER: Rule(Permission.PEOPLE, "developer.admitted"),
        UserAct.STOP_REGISTER: Rule(Permission.PEOPLE, "developer.dismissed"),
        UserAct.ROLE: Rule(Permission.ROLES, "role.changed", steps_up=True),
        UserAct.DISABLE: Rule(Permission.PEOPLE, "user.disabled"),
        UserAct.ENABLE: Rule(Permission.PEOPLE, "user.enabled"),
        UserAct.END_APP: Rule(Permission.PEOPLE, "grant.revoked"),
        UserAct.DELETE: Rule(Permission.PEOPLE, "user.removed", steps_up=True),
    }
)
"""In the order in which they are offered."""
