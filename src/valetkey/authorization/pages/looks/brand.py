"""What the operator can say about the looks of the pages: a name, a logo, a colour, two links."""

from dataclasses import dataclass

from valetkey.authorization.pages.looks.accent import check_accent


@dataclass(frozen=True, slots=True)
class Brand:
    """Whose pages these are. An address is `https` or a path of this server; empty for none.

    A Mistake is raised for an accent that is not `#rrggbb`. Its text and its edges are computed
    from it, so every colour gives readable pages, light and dark.
    """

    name: str = "Valetkey"
    logo_url: str = ""
    accent: str = "#2456d6"
    terms_url: str = ""
    privacy_url: str = ""

    def __post_init__(self) -> None:
        """Let nothing but a colour reach the stylesheet."""
        check_accent(self.accent)
