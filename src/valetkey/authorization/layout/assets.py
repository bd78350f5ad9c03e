"""The files that pages link to, each with a URL of its content; the brand as it is now."""

import hashlib
import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType

from msgspec import Struct

from valetkey.authorization.layout.brand import Brand, accent_shades
from valetkey.authorization.layout.theme import Theme
from valetkey.authorization.storage.transaction import Followed, Transaction
from valetkey.config.sections.people import BrandField
from valetkey.kernel.replace import replace

CACHE_CONTROL = "public, max-age=31536000, immutable"
"""The Cache-Control of every asset: changed content gets another URL."""

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SCRIPT_COMMENT = re.compile(r"^\s*//.*\n|^\s+", re.MULTILINE)
_MARGIN = re.compile(r"\s*\n\s*")
_SPACE = re.compile(r"(?<=[:,;{}>])\s+|\s+(?=[{>])|;\s*(?=\})|(?<=[\s:(,])0(?=\.\d)")

LIGHT_CARD = "#ffffff"
DARK_CARD = "#191c20"
"""The backgrounds for which the accent is computed; style.css has the same values."""

# An image opened by itself is a document: it may have styles and nothing else.
_SANDBOX = ("content-security-policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")

_SCRIPTS = (
    "chart.js",
    "copy.js",
    "explorer.js",
    "filter.js",
    "live.js",
    "passkey.js",
    "preview.js",
    "search.js",
    "select.js",
    "show.js",
    "strength.js",
    "times.js",
)
_STYLES = (
    "style.css",
    "controls.css",
    "parts.css",
    "charts.css",
    "visitor.css",
    "mailed.css",
    "account.css",
    "security.css",
    "person.css",
    "errors.css",
    "insight.css",
    "developer.css",
    "search.css",
    "admin.css",
)
"""Files under layout/styles, in their order; scripts are under layout/scripts."""


class Asset(Struct, frozen=True):
    """A file served at `path` to everyone, cacheable without limit."""

    path: str
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Assets(Struct, frozen=True):
    """The files that the pages of one brand refer to."""

    style: Asset
    icon: Asset
    scripts: Mapping[str, Asset]
    """Scripts by the name of the file, such as `copy.js`."""
    console: Asset
    """A stylesheet that only the pages of the console load."""
    theme: Asset | None = None
    """An additional stylesheet of the theme."""
    logo: Asset | None = None

    def __iter__(self) -> Iterator[Asset]:
        """Iterate over the files, for routing."""
        more = (asset for asset in (self.theme, self.logo) if asset is not None)
        return iter((self.style, self.console, self.icon, *self.scripts.values(), *more))


@lru_cache(maxsize=256)  # one for each issuer of the process
def assets(brand: Brand) -> Assets:
    """Return the assets of a brand: stylesheets, icon and scripts."""
    colours = colours_of(brand.accent)
    light = accent_shades(brand.accent, LIGHT_CARD)
    own = _minified("\n".join(_read("styles", name) for name in _STYLES))
    icon = _read("styles", "icon.svg").replace("FILL", light.fill).replace("INK", light.on_fill)
    return Assets(
        style=_asset("style", "css", "text/css; charset=utf-8", colours + own),
        icon=_asset("icon", "svg", "image/svg+xml", icon),
        scripts=_own_scripts(),
        console=_console_style(),
        theme=_theme_style(brand.theme),
        logo=_theme_logo(brand.theme),
    )


@cache
def _own_scripts() -> Mapping[str, Asset]:
    """Return the scripts, which are those of every brand."""
    kind = "text/javascript; charset=utf-8"
    texts = {name: _SCRIPT_COMMENT.sub("", _read("scripts", name)) for name in _SCRIPTS}
    return MappingProxyType(
        {n: _asset(n.removesuffix(".js"), "js", kind, text) for n, text in texts.items()}
    )


@cache
def _console_style() -> Asset:
    style = _minified(_read("styles", "console.css"))
    return _asset("console", "css", "text/css; charset=utf-8", style)


def colours_of(accent: str) -> str:
    """Return the style that declares the colors of this accent."""
    light, dark = accent_shades(accent, LIGHT_CARD), accent_shades(accent, DARK_CARD)
    return (
        f":root{{--fill:{light.fill};--on-fill:{light.on_fill};"
        f"--edge:{light.edge};--accent:{light.text}}}\n"
        "@media (prefers-color-scheme:dark){"
        f":root{{--fill:{dark.fill};--on-fill:{dark.on_fill};"
        f"--edge:{dark.edge};--accent:{dark.text}}}}}\n"
    )


def _theme_style(theme: Theme | None) -> Asset | None:
    if theme is None or not theme.style:
        return None
    return _asset("theme", "css", "text/css; charset=utf-8", theme.style)


def _theme_logo(theme: Theme | None) -> Asset | None:
    if theme is None or not theme.logo:
        return None
    digest = hashlib.sha256(theme.logo).hexdigest()[:16]
    path = f"/assets/logo-{digest}.{'svg' if 'svg' in theme.logo_type else 'png'}"
    return Asset(path, theme.logo_type, theme.logo, (_SANDBOX,))


def _asset(name: str, ending: str, content_type: str, text: str) -> Asset:
    body = text.encode()
    digest = hashlib.sha256(body).hexdigest()[:16]
    return Asset(f"/assets/{name}-{digest}.{ending}", content_type, body)


def _minified(style: str) -> str:
    """Return the style without comments, needless spaces and zeros: every page loads it."""
    return _SPACE.sub("", _MARGIN.sub("\n", _COMMENT.sub("", style)))


def _read(*names: str) -> str:
    folder = resources.files("valetkey.authorization.layout")
    return folder.joinpath(*names).read_text(encoding="utf-8")


_REMEMBERED = 100
"""Maximum number of files of earlier themes that are kept, because open pages request them."""


class CurrentBrand(Followed[Mapping[BrandField, str]]):
    """The brand of all pages, kept in memory and reloaded after a change, never per page."""

    def __init__(self, base: Brand) -> None:
        """Start with the brand of the settings."""
        self._base = base
        self._files: OrderedDict[str, Asset] = OrderedDict()
        self.current = base
        self._show(base)

    def read(self, tx: Transaction) -> Mapping[BrandField, str]:
        """Return the parts that the console changed."""
        return tx.brand.all()

    def apply(self, stored: Mapping[BrandField, str]) -> None:
        """Show the brand with these parts changed."""
        brand = self.with_changes(stored)
        if brand != self.current:
            self._show(brand)

    def with_changes(self, brand_values: Mapping[BrandField, str]) -> Brand:
        """Return the brand of the settings with these parts changed."""
        base = self._base
        return replace(
            base,
            name=brand_values.get(BrandField.NAME, base.name),
            accent=brand_values.get(BrandField.ACCENT, base.accent),
            logo_url=brand_values.get(BrandField.LOGO_URL, base.logo_url),
            logo_dark_url=brand_values.get(BrandField.LOGO_DARK_URL, base.logo_dark_url),
            terms_url=brand_values.get(BrandField.TERMS_URL, base.terms_url),
            privacy_url=brand_values.get(BrandField.PRIVACY_URL, base.privacy_url),
        )

    def asset(self, path: str) -> Asset | None:
        """Return a file of the current brand, or of an earlier one."""
        return self._files.get(path)

    def _show(self, brand: Brand) -> None:
        self.current = brand
        for asset in assets(brand):
            self._files[asset.path] = asset
            self._files.move_to_end(asset.path)
        while len(self._files) > _REMEMBERED:
            self._files.popitem(last=False)
