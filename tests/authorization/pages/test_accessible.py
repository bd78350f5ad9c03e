"""Axe reports nothing on any kind of element of any page: light, dark, desktop and phone."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.authorization.pages.reading import Element
from tests.authorization.pages.shown import SERVER, answering, readings
from valetkey.authorization.layout.brand import Brand

AXE = Path(__file__).parents[2] / "clients/node_modules/axe-core/axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
EVERYTHING: Mapping[str, object] = {"runOnly": TAGS}
# What else depends on the colors, and on the width.
COLOURS: Mapping[str, object] = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
SIZES: Mapping[str, object] = {"runOnly": {"type": "rule", "values": ["target-size"]}}
LOOK = """async options => {
    const seen = await axe.run(document, {...options, resultTypes: ['violations']});
    return seen.violations.map(v => [v.id, ...v.nodes.map(n => n.html.slice(0, 200))]);
}"""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab in which the examples are shown, and axe after them."""
    assert AXE.exists(), "run `npm ci` in tests/clients: `make test` does"
    context = browser.new_context(reduced_motion="reduce")
    context.add_init_script(path=AXE)
    tab = context.new_page()
    tab.route("**/*", answering(Brand("Acme", terms_url="/terms", privacy_url="/privacy")))
    yield tab
    context.close()


def _seen(tab: Page, options: Mapping[str, object]) -> Sequence[Sequence[str]]:
    found: Sequence[Sequence[str]] = tab.evaluate(LOOK, options)
    return found


def _kind(element: Element) -> tuple[object, ...]:
    """Return what axe's rules judge: attributes, whether there is text, and what holds it."""
    given = element.attributes
    holders = tuple((each.name, each.attributes.get("class")) for each in element.holders[-1:])
    told = tuple((name, given.get(name)) for name in ("class", "type", "role"))
    return element.name, tuple(sorted(given)), told, bool(element.text), holders


def test_axe_reports_nothing(tab: Page) -> None:
    complaints: dict[str, Sequence[Sequence[str]]] = {}
    known: set[object] = set()
    coloured: set[object] = set()
    for name, reading in readings().items():
        kinds = {_kind(element) for element in reading.elements}
        if kinds <= known:
            # Every element of it was checked on another page.
            continue
        known |= kinds
        tab.set_viewport_size({"width": 1280, "height": 900})
        tab.emulate_media(color_scheme="light")
        tab.goto(f"{SERVER}/{name}")
        found = [*_seen(tab, EVERYTHING)]
        classes = {(e.name, e.attributes.get("class")) for e in reading.elements}
        if not classes <= coloured:
            # Dark colors and narrow widths depend on the element and its class alone.
            coloured |= classes
            tab.emulate_media(color_scheme="dark")
            found += _seen(tab, COLOURS)
            tab.set_viewport_size({"width": 390, "height": 844})
            found += _seen(tab, SIZES)
        if found:
            complaints[name] = found

    assert known
    assert not complaints
