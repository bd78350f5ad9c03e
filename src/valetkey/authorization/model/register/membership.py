"""Memberships: the team of an app."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.model.account.user import Uid
from valetkey.kernel.moment import Instant


class TeamRole(StrEnum):
    """The roles of an app's team members."""

    OWNER = "owner"  # everything
    MEMBER = "member"  # everything except the team and deleting the app


@dataclass(frozen=True, slots=True)
class Membership:
    """One user in the team of one app."""

    client_id: str
    uid: Uid
    role: TeamRole
    since: Instant

    @property
    def owns(self) -> bool:
        """Whether they may change the team and delete the app."""
        return self.role is TeamRole.OWNER
