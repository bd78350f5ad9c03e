"""Who is who on a page: the app that asks and the person who is asked."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AskingApp:
    """A client as a visitor sees it.

    `domain` is the host the answer is sent to, because a name can be borrowed and a host cannot.
    Links that are not `https` are left out of the page, whatever was registered.
    """

    name: str
    domain: str
    verified: bool = False
    logo_url: str = ""
    policy_url: str = ""
    terms_url: str = ""
    #: It registered itself, and nobody who runs this server has looked at it.
    self_registered: bool = False


@dataclass(frozen=True, slots=True)
class SignedInPerson:
    """The user whose session this is; an empty `name` or `email` is left out."""

    username: str
    name: str = ""
    email: str = ""

    @property
    def shown_name(self) -> str:
        """What to call them."""
        return self.name or self.username

    @property
    def shown_account(self) -> str:
        """What tells two people of one name apart; empty when the name already says it."""
        return self.email or (self.username if self.name else "")
