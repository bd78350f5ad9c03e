"""What the operator can say about the looks of the pages: a name, a logo, a colour, a theme."""

from dataclasses import dataclass

from valetkey.authorization.layout.accent import check_accent
from valetkey.authorization.layout.language import LANGUAGES, Language
from valetkey.authorization.layout.theme import Theme


@dataclass(frozen=True, slots=True)
class Brand:
    """Whose pages these are. An address is `https` or a path of this server; empty for none.

    The logo is shown only if `logo_url` is a path.

    A Mistake is raised for an accent that is not `#rrggbb`. Its text and its edges are computed
    from it, so every colour gives readable pages, light and dark.
    """

    name: str = "Valetkey"
    logo_url: str = ""
    accent: str = "#2456d6"
    terms_url: str = ""
    privacy_url: str = ""
    theme: Theme | None = None

    @property
    def languages(self) -> tuple[Language, ...]:
        """Those that its pages speak."""
        return LANGUAGES if self.theme is None else (*LANGUAGES, *self.theme.languages)

    def __post_init__(self) -> None:
        """Let nothing but a colour reach the stylesheet."""
        check_accent(self.accent)
