"""The page of the link that makes the first owner."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import SignedInPerson


@dataclass(frozen=True, slots=True)
class NewOwner:
    """What was typed for an account, and what is wrong with it, by field; never the password."""

    username: str = ""
    email: str = ""
    name: str = ""
    faults: tuple[tuple[str, str], ...] = ()

    def fault(self, field: str) -> str:
        """The sentence about one field, "" for none."""
        return dict(self.faults).get(field, "")


@dataclass(frozen=True, slots=True)
class OwnerPage:
    """Somebody with a good link: who they are, then what protects them, then the role.

    Without a `person` the form posts `csrf`, `username`, `email`, `name` and `password` to
    `account_action`; with one that is `protected`, `csrf` to `action`. A link that is `over` gives
    none of this.
    """

    template: ClassVar[str] = "admin/people/owner.html"

    action: str
    account_action: str
    sign_in_url: str
    csrf: str
    #: Characters in a new password, at least.
    shortest: int
    person: SignedInPerson | None = None
    protected: bool = False
    new: NewOwner = NewOwner()
    over: bool = False
    #: No further link can be made.
    has_owner: bool = False
