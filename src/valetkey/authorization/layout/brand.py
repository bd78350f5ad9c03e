"""The brand of the pages: name, logo, accent color and theme, set by the operator."""

from msgspec import Struct

from valetkey.authorization.layout.accent import check_accent
from valetkey.authorization.layout.language import LANGUAGES, Language
from valetkey.authorization.layout.theme import Theme


class Brand(Struct, frozen=True):
    """A brand. URLs are `https` or a path of this server; empty for none.

    The logo is shown only if `logo_url` is a path.

    Raises OperatorError for an accent that is not `#rrggbb`. Text and border colors are computed
    from it, so every accent gives readable pages, light and dark.
    """

    name: str = "Valetkey"
    logo_url: str = ""
    accent: str = "#2456d6"
    terms_url: str = ""
    privacy_url: str = ""
    theme: Theme | None = None
    docs_url: str = ""
    """The base URL of the documentation, with a slash at the end."""
    logo_dark_url: str = ""
    """The logo in dark mode; "" for the same."""

    @property
    def languages(self) -> tuple[Language, ...]:
        """The languages of the pages."""
        return LANGUAGES if self.theme is None else (*LANGUAGES, *self.theme.languages)

    def __post_init__(self) -> None:
        """Check that nothing but a color reaches the stylesheet."""
        check_accent(self.accent)
