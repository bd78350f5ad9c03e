"""People: search, filter, one page after the other."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.role import Role
from valetkey.kernel.words import translatable

ROLE_WORDS = {
    Role.OWNER: translatable("Owner"),
    Role.ADMINISTRATOR: translatable("Administrator"),
    Role.SUPPORT: translatable("Support"),
    Role.AUDITOR: translatable("Auditor"),
}
"""What people call each."""


@dataclass(frozen=True, slots=True)
class PersonLine:
    """One of them."""

    uid: int
    username: str
    name: str
    email: str
    verified: bool
    disabled: bool
    #: "" for none.
    role: str
    since: When
    url: str


@dataclass(frozen=True, slots=True)
class UsersPage:
    """List them; the form asks by GET for `q` and `show`."""

    template: ClassVar[str] = "admin/people/users.html"

    action: str
    text: str
    chosen: str
    listed: tuple[PersonLine, ...]
    #: Where the list goes on, and where it begins; "" where it does not.
    more: str = ""
    first: str = ""
    #: Somebody was just deleted.
    deleted: bool = False
