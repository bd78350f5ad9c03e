"""Axe looks at every page, light and dark, on a desk and in a hand, and reports nothing."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.authorization.pages.shown import SERVER, SHOWN, answering
from valetkey.authorization.layout.brand import Brand

AXE = Path(__file__).parents[2] / "clients/node_modules/axe-core/axe.min.js"
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
EVERYTHING: Mapping[str, object] = {"runOnly": TAGS}
# What else depends on the colours, and on the width.
COLOURS: Mapping[str, object] = {"runOnly": {"type": "rule", "values": ["color-contrast"]}}
SIZES: Mapping[str, object] = {"runOnly": {"type": "rule", "values": ["target-size"]}}
KINDS = """() => [...new Set(
    [...document.querySelectorAll('body *')].map(e => `${e.tagName} ${e.getAttribute('class')}`)
)]"""
LOOK = """async options => {
    const seen = await axe.run(document, {...options, resultTypes: ['violations']});
    return seen.violations.map(v => [v.id, ...v.nodes.map(n => n.html.slice(0, 200))]);
}"""
# Alike looks are looked at once: a share for each of some runs at a time.
SHARES = 4


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


@pytest.mark.parametrize("share", range(SHARES))
def test_axe_reports_nothing(tab: Page, share: int) -> None:
    complaints: dict[str, Sequence[Sequence[str]]] = {}
    known: set[str] = set()
    for name in SHOWN[share::SHARES]:
        tab.set_viewport_size({"width": 1280, "height": 900})
        tab.emulate_media(color_scheme="light")
        tab.goto(f"{SERVER}/{name}")
        found = [*_seen(tab, EVERYTHING)]
        kinds = set(tab.evaluate(KINDS))
        if not kinds <= known:
            # In the dark and in a hand, what looks alike need not be looked at again.
            known |= kinds
            tab.emulate_media(color_scheme="dark")
            found += _seen(tab, COLOURS)
            tab.set_viewport_size({"width": 390, "height": 844})
            found += _seen(tab, SIZES)
        if found:
            complaints[name] = found

    assert not complaints
