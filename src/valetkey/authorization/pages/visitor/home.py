"""The page at the root, for who is not signed in: whose server this is."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class HomePage:
    """Name the server, and offer to sign in.

    `sign_up_url` is empty where nobody makes an account of their own.
    """

    template: ClassVar[str] = "visitor/home.html"

    sign_in_url: str
    sign_up_url: str = ""
