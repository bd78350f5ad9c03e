"""Who has which role."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.admin.people.users import PersonLine


@dataclass(frozen=True, slots=True)
class HolderLine:
    """Somebody with a role."""

    person: PersonLine
    #: More than a password signs them in.
    protected: bool
    #: Where it is changed; "" where whoever looks may not.
    change_url: str
    #: Whoever looks.
    me: bool = False


@dataclass(frozen=True, slots=True)
class RolesPage:
    """List them, the highest first; the form asks by POST for `person` and `role`."""

    template: ClassVar[str] = "admin/people/roles.html"

    action: str
    csrf: str
    holders: tuple[HolderLine, ...]
    #: Whether whoever looks may give roles.
    gives: bool
    #: The roles there are, by value and name.
    roles: tuple[tuple[str, str], ...]
    #: What was typed, and that there is nobody of that name.
    person: str = ""
    chosen: str = ""
    unknown: bool = False
    #: Whom it could mean, where these are several.
    several: tuple[PersonLine, ...] = ()
