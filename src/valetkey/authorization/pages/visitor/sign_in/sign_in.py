"""The sign-in page: who asks, a name and a password."""

from dataclasses import dataclass
from typing import ClassVar

from valetkey.authorization.layout.contexts import AskingApp
from valetkey.authorization.pages.visitor.federation.button import ProviderButton


@dataclass(frozen=True, slots=True)
class SignInPage:
    """Ask for a user name and a password; `failed` and `wait` say how the last attempt went.

    Posts `username`, `password` and `csrf`, or `credential` and `csrf` with a passkey, or
    `decision=deny` when the visitor turns back.
    """

    template: ClassVar[str] = "visitor/sign_in/sign_in.html"
    scripts: ClassVar[tuple[str, ...]] = ("passkey.js",)

    action: str
    csrf: str
    #: None when nobody sent the visitor here: then there is nobody to go back to.
    app: AskingApp | None = None
    #: Kept from the last attempt, or suggested by the app.
    username: str = ""
    #: For who forgot their password; "" where nothing can be done here.
    forgotten_url: str = ""
    #: For who has no account; "" where nobody makes one here.
    sign_up_url: str = ""
    failed: bool = False
    #: Seconds until another attempt is looked at; 0 when none has to be waited for.
    wait: int = 0
    #: What the browser needs to use a passkey, as JSON; "" where there can be none.
    passkey: str = ""
    passkey_failed: bool = False
    #: Other servers at which the visitor may sign in.
    providers: tuple[ProviderButton, ...] = ()
