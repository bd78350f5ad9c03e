"""The pages of signing out: the question, and that it is done."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.pages.who import SignedInPerson


@dataclass(frozen=True, slots=True)
class SignOutPage:
    """Ask before signing out, so that no link can do it for you. Posts `csrf`."""

    template: ClassVar[str] = "visitor/sign_out.html"

    action: str
    csrf: str
    person: SignedInPerson


@dataclass(frozen=True, slots=True)
class SignedOutPage:
    """Say that one is signed out."""

    template: ClassVar[str] = "visitor/signed_out.html"
