"""The pages about the team of an app."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.pages.developer.head import AppHead


@dataclass(frozen=True, slots=True)
class MemberLine:
    """One person in the team; `number` names them in forms."""

    number: str
    name: str
    username: str
    owns: bool
    since: When
    #: It is the visitor.
    here: bool = False


@dataclass(frozen=True, slots=True)
class InvitationLine:
    """One invitation that waits for its answer."""

    id: str
    invited: str
    owner: bool
    since: When


@dataclass(frozen=True, slots=True)
class TeamPage:
    """List them; owners change it. Posts `csrf` and `do`, with what that needs.

    `trouble` says why nothing was done: nobody, number, member, twice, full, last_owner. `typed`
    is what was written into the form that failed.
    """

    template: ClassVar[str] = "developer/team/team.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppHead
    action: str
    csrf: str
    members: tuple[MemberLine, ...]
    waiting: tuple[InvitationLine, ...] = ()
    typed: str = ""
    trouble: str = ""
    #: invited, withdrawn, changed, removed, or "" for nothing that was done just now.
    done: str = ""
    #: Letters are sent; where they are not, people find their invitation in their own portal.
    by_mail: bool = True


@dataclass(frozen=True, slots=True)
class RemoveMemberPage:
    """Ask before somebody goes; `member.here` where they go by themselves.

    Posts `csrf` and `member`.
    """

    template: ClassVar[str] = "developer/team/remove_member.html"

    app: AppHead
    action: str
    csrf: str
    member: MemberLine


@dataclass(frozen=True, slots=True)
class InvitationPage:
    """What somebody is asked into, and by whom. Posts `csrf`, `link` and `do`."""

    template: ClassVar[str] = "developer/team/invitation.html"

    action: str
    csrf: str
    link: str
    app_name: str
    by: str
    owner: bool
