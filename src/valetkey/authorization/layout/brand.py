"""The brand of the pages: name, logo, theme, and an accent color readable anywhere (WCAG 2.2)."""

import re

from msgspec import Struct

from valetkey.authorization.layout.language import LANGUAGES, Language
from valetkey.authorization.layout.theme import Theme
from valetkey.kernel.refusal import OperatorError

TEXT_CONTRAST = 4.5
"""Minimum contrast of text."""

EDGE_CONTRAST = 3.0
"""Minimum contrast of the edge of a control."""

CHANGED_TEXT_CONTRAST = 7.0
"""Contrast of text whose color had to be changed: the minimum would look disabled."""

FILL_CONTRAST = 1.25
"""Contrast below which a fill cannot be distinguished from its background."""

_HEX = re.compile(r"#[0-9a-fA-F]{6}")
_WHITE = (255, 255, 255)
_BLACK = (0, 0, 0)
_STEPS = 64
_LINEAR_BELOW = 0.04045  # sRGB, IEC 61966-2-1

_Colour = tuple[int, int, int]


class AccentColors(Struct, frozen=True):
    """The accent on one background, in `#rrggbb`: as a fill, its text, its edge, and as text."""

    fill: str
    on_fill: str
    edge: str
    text: str


def accent_shades(accent: str, ground: str) -> AccentColors:
    """Return the accent, moved away from `ground` if its contrast is too low."""
    colour, under = _parse(accent), _parse(ground)
    readable = _contrast(colour, under) >= TEXT_CONTRAST
    text = colour if readable else _apart(colour, under, CHANGED_TEXT_CONTRAST)
    fill = text if _contrast(colour, under) < FILL_CONTRAST else colour
    return AccentColors(
        fill=_hex(fill),
        on_fill=_hex(max(_WHITE, _BLACK, key=lambda end: _contrast(end, fill))),
        edge=_hex(_apart(fill, under, EDGE_CONTRAST)),
        text=_hex(text),
    )


def check_accent(accent: str) -> None:
    """Raise OperatorError unless it is `#rrggbb`: it is written into the stylesheet."""
    if _HEX.fullmatch(accent) is None:
        raise OperatorError('write the color as "#" and six hexadecimal digits', "brand.accent")


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two `#rrggbb` colors, from 1 to 21 (WCAG 2)."""
    return _contrast(_parse(one), _parse(other))


def _contrast(one: _Colour, other: _Colour) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: _Colour) -> float:
    red, green, blue = (_linear(part / 255) for part in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= _LINEAR_BELOW else float(((part + 0.055) / 1.055) ** 2.4)


def _apart(colour: _Colour, ground: _Colour, enough: float) -> _Colour:
    far = max(_WHITE, _BLACK, key=lambda end: _contrast(end, ground))
    mixtures = (_mix(colour, far, step / _STEPS) for step in range(_STEPS + 1))
    return next((mixed for mixed in mixtures if _contrast(mixed, ground) >= enough), far)


def _mix(colour: _Colour, far: _Colour, share: float) -> _Colour:
    red, green, blue = (
        round(part + (end - part) * share) for part, end in zip(colour, far, strict=True)
    )
    return red, green, blue


def _parse(text: str) -> _Colour:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _hex(colour: _Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


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
