"""The pages of signing out: the question, and that it is done."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import SignedInPerson


@dataclass(frozen=True, slots=True)
class SignOutPage:
    """Ask before signing out, so that no link can do it for you.

    Posts `csrf`, `session` and `fields`. `app_name` is that of the app that asks, "" where the
    person came by themselves. Without `person` the session is too old to say whose it is.
    """

    template: ClassVar[str] = "visitor/sign_out/sign_out.html"

    action: str
    csrf: str
    session: str
    person: SignedInPerson | None
    app_name: str = ""
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SignedOutPage:
    """Say that one is signed out.

    `returns_to` is where the person goes from here, by themselves after a moment. `unreturned`
    says why they go nowhere although an app asked for that (a value of `Unreturned`), `reference`
    names the record which says more. `frames` are addresses of apps, told by being shown.
    """

    template: ClassVar[str] = "visitor/sign_out/signed_out.html"

    returns_to: str = ""
    unreturned: str = ""
    reference: str = ""
    frames: tuple[str, ...] = ()
