"""What can be done with an app, and which of it needs recent authentication."""

from enum import StrEnum

from valetkey.authorization.model.register.client import GrantTypeName


class ClientAct(StrEnum):
    """What can be done; each is the end of an address and has a question of its own."""

    VERIFY = "verify"
    UNVERIFY = "unverify"
    ADOPT = "adopt"
    SECRET = "secret"
    END_SECRET = "end-secret"
    ALLOW_IMPLICIT = "allow-implicit"
    END_IMPLICIT = "end-implicit"
    ALLOW_PASSWORD = "allow-password"
    END_PASSWORD = "end-password"
    DISABLE = "disable"
    ENABLE = "enable"
    DELETE = "delete"


RECENT = frozenset(
    {
        ClientAct.SECRET,
        ClientAct.END_SECRET,
        ClientAct.ALLOW_IMPLICIT,
        ClientAct.ALLOW_PASSWORD,
        ClientAct.DELETE,
    }
)
"""What needs a proof of a moment ago."""

GRANTS = {
    ClientAct.ALLOW_IMPLICIT: (GrantTypeName.IMPLICIT, True),
    ClientAct.END_IMPLICIT: (GrantTypeName.IMPLICIT, False),
    ClientAct.ALLOW_PASSWORD: (GrantTypeName.PASSWORD, True),
    ClientAct.END_PASSWORD: (GrantTypeName.PASSWORD, False),
}
