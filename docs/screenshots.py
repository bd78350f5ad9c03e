"""Screenshots of every page: light and dark, phone and desktop.

`make screenshots` writes all of them to `build/screenshots`, with an index to look through, and
renews those of `docs/screenshots`, which are the ones that README and documentation show.
"""

import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import BrowserContext, FloatRect, Page, sync_playwright

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.shown import SERVER, SHOWN, answering, area_of
from valetkey.authorization.layout.brand import Brand

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build/screenshots"
"""All screenshots; not part of the repository."""

SHOWN_HERE = ROOT / "docs/screenshots"
"""The screenshots that documents show."""

CHROMIUM = "/usr/bin/chromium"
WIDTHS = {"phone": 390, "desktop": 1280}
SCHEMES = ("light", "dark")
TALLEST = 1_200
"""Maximum height in pixels; the rest of a page is cut off."""

COLOURS = 16
"""Colors of the palette. Pages are text on few backgrounds, so few colors suffice."""

FLAT = "main { box-shadow: none !important }"
"""Hides shadows, which need more colors than everything else."""

GROUNDS, NEAR, FAR = 6, 8, 30
"""Number of background colors; minimum distance (of 441) between those, and between others."""

_SHOWN = re.compile(r"screenshots/([a-z]+/[A-Za-z0-9_-]+-[a-z]+-[a-z]+\.webp)")

AREAS = {
    "visitor": "Sign-in, sign-up, consent and sign-out",
    "account": "The account of a user",
    "developer": "The developer portal",
    "admin": "Administration",
    "errors": "Errors, and how to fix them",
}
"""Titles of the areas, in the order of the gallery; other areas follow."""


MOST = 4
"""States of one page: empty, one entry, many entries, errors."""


def shown_in_documents() -> frozenset[str]:
    """Return the paths of the screenshots that README and documentation show."""
    documents = (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    texts = (document.read_text(encoding="utf-8") for document in documents)
    return frozenset(path for text in texts for path in _SHOWN.findall(text))


def _gallery() -> Iterator[str]:
    shown: defaultdict[str, int] = defaultdict(int)
    documents = {Path(path).name.rsplit("-", 2)[0] for path in shown_in_documents()}
    for name in SHOWN:
        # Examples for layout tests are left out.
        if not name.endswith(("hostile", "long", "rtl")):
            template = EXAMPLES[name].template
            shown[template] += 1
            if shown[template] <= MOST or name in documents:
                yield name


GALLERY = tuple(_gallery())


@dataclass(frozen=True, slots=True)
class Picture:
    """One page at one width in one color scheme."""

    name: str
    width: str
    scheme: str

    @property
    def file(self) -> str:
        """Return its path in the gallery."""
        return f"{area_of(EXAMPLES[self.name])}/{self.name}-{self.width}-{self.scheme}.webp"


def take(context: BrowserContext, names: Sequence[str]) -> Iterator[tuple[Picture, bytes]]:
    """Take screenshots of these examples."""
    tab = context.new_page()
    tab.route("**/*", answering(Brand("Acme", terms_url="/terms", privacy_url="/privacy")))
    for name in names:
        for width, pixels in WIDTHS.items():
            tab.set_viewport_size({"width": pixels, "height": 800})
            tab.goto(f"{SERVER}/{name}")
            tab.add_style_tag(content=FLAT)
            for scheme in SCHEMES:
                tab.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
                yield Picture(name, width, scheme), shot(tab, pixels)


def shot(tab: Page, width: int) -> bytes:
    """Return a picture of the page, in few colors."""
    height = int(tab.evaluate("document.documentElement.scrollHeight"))
    clip = FloatRect(x=0, y=0, width=width, height=min(height, TALLEST))
    screen = Image.open(BytesIO(tab.screenshot(full_page=True, clip=clip))).convert("RGB")
    few = screen.quantize(palette=_palette(screen), dither=Image.Dither.NONE)
    file = BytesIO()
    few.convert("RGB").save(file, "WEBP", lossless=True, quality=60, method=3)
    return file.getvalue()


def _palette(shot: Image.Image) -> Image.Image:
    """Return the most frequent colors, each sufficiently different from the others."""
    chosen: list[tuple[int, ...]] = []
    for _, colour in sorted(shot.getcolors(1 << 24) or (), reverse=True):
        assert isinstance(colour, tuple)  # noqa: S101  # the picture is in RGB
        least = NEAR if len(chosen) < GROUNDS else FAR
        if all(_apart(colour, other) >= least**2 for other in chosen):
            chosen.append(colour)
        if len(chosen) == COLOURS:
            break
    flat = [part for colour in chosen for part in colour]
    palette = Image.new("P", (1, 1))
    palette.putpalette(flat + flat[-3:] * (256 - len(chosen)))
    return palette


def _apart(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True))


def write_indexes(names: Sequence[str]) -> None:
    """Write a page for each area, and an index."""
    areas: defaultdict[str, list[str]] = defaultdict(list)
    for name in names:
        areas[area_of(EXAMPLES[name])].append(name)
    titled_areas = [area for area in AREAS if area in areas]
    order = [*titled_areas, *sorted(set(areas) - set(titled_areas))]
    lines = ["# Every page", ""]
    lines += ["Each in its states: empty, one, many, wrong; in a hand and on a desk, in light"]
    lines += ["and in dark.", ""]
    for area in order:
        title = AREAS.get(area, area)
        lines += [f"- [{title}]({area}.md): {len(areas[area])} pages"]
        page = [f"# {title}", ""]
        for name in areas[area]:
            page += [f"**{name.replace('_', ' ')}** <br> {_row(name)}", ""]
        (FOLDER / f"{area}.md").write_text("\n".join(page), encoding="utf-8")
    (FOLDER / "index.md").write_text("\n".join((*lines, "")), encoding="utf-8")


def _row(name: str) -> str:
    shown = {"desktop": 320, "phone": 98}
    return " ".join(
        f'<img src="{Picture(name, width, scheme).file}" width="{pixels}"'
        f' alt="{name.replace("_", " ")}, {width}, {scheme}">'
        for scheme in SCHEMES
        for width, pixels in shown.items()
    )


def main(only: Sequence[str]) -> None:
    """Take all screenshots, or those whose names start with one of `only`."""
    names = [name for name in GALLERY if not only or name.startswith(tuple(only))]
    shown = shown_in_documents()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = browser.new_context(reduced_motion="reduce", timezone_id="UTC", bypass_csp=True)
        for picture, content in take(context, names):
            for folder in (FOLDER, SHOWN_HERE) if picture.file in shown else (FOLDER,):
                file = folder / picture.file
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(content)
        browser.close()
    write_indexes(names)


if __name__ == "__main__":
    main(sys.argv[1:])
