"""Who is who on a page: the app that asks and the person who is asked."""

from dataclasses import dataclass
from enum import StrEnum

from valetkey.authorization.pages.visitor.when import When


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


class Proof(StrEnum):
    """How a user signed in."""

    PASSWORD = "password"
    PASSKEY = "passkey"
    TWO_STEPS = "two_steps"  # a password and a second factor
    ELSEWHERE = "elsewhere"  # an upstream provider


@dataclass(frozen=True, slots=True)
class SessionLine:
    """One session; `browser` and `system` are "" where the user agent does not say."""

    id: str
    browser: str
    system: str
    since: When
    last_seen: When
    #: The session of the browser that looks at the page.
    here: bool = False
    proof: Proof = Proof.PASSWORD
