"""What every page has to be: axe, keyboard alone, large text, German on a phone, no script.

A page is visited if it has a kind of element, or a longer word, that no page before it has.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.authorization.pages.reading import Element
from tests.authorization.pages.shown import SERVER, answering, readings, widest
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import GERMAN

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
    violations: Sequence[Sequence[str]] = tab.evaluate(LOOK, options)
    return violations


def _kind(element: Element) -> tuple[object, ...]:
    """Return what axe's rules judge: attributes, whether there is text, and what holds it."""
    attributes = element.attributes
    holders = tuple(
        (holder.name, holder.attributes.get("class")) for holder in element.holders[-1:]
    )
    values = tuple((name, attributes.get(name)) for name in ("class", "type", "role"))
    return element.name, tuple(sorted(attributes)), values, bool(element.text), holders


def test_axe_reports_no_violations(tab: Page) -> None:
    complaints: dict[str, Sequence[Sequence[str]]] = {}
    checked_kinds: set[object] = set()
    coloured: set[object] = set()
    for name, reading in readings().items():
        kinds = {_kind(element) for element in reading.elements}
        if kinds <= checked_kinds:
            # Every element of it was checked on another page.
            continue
        checked_kinds |= kinds
        tab.set_viewport_size({"width": 1280, "height": 900})
        tab.emulate_media(color_scheme="light")
        tab.goto(f"{SERVER}/{name}")
        violations = [*_seen(tab, EVERYTHING)]
        classes = {(e.name, e.attributes.get("class")) for e in reading.elements}
        if not classes <= coloured:
            # Dark colors and narrow widths depend on the element and its class alone.
            coloured |= classes
            tab.emulate_media(color_scheme="dark")
            violations += _seen(tab, COLOURS)
            tab.set_viewport_size({"width": 390, "height": 844})
            violations += _seen(tab, SIZES)
        if violations:
            complaints[name] = violations

    assert checked_kinds
    assert not complaints


# What stands in a box of its own that scrolls is not the page's; `.unseen` is for screen readers.
OUTSIDE = """() => {
    const edge = document.documentElement.clientWidth + 1;
    const scrolls = e => ['auto', 'scroll'].includes(getComputedStyle(e).overflowX);
    const boxed = e => e !== document.body && (scrolls(e) || boxed(e.parentElement));
    const seen = [...document.querySelectorAll('body *')]
        .filter(e => e.checkVisibility() && !e.closest('svg, .unseen, .skip, thead'));
    // Its text as it is painted, without what is hidden or ends with an ellipsis.
    const words = e => {
        if (e.matches('input, select, textarea'))
            return [...e.getClientRects()];
        const texts = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
        const rects = [];
        while (texts.nextNode()) {
            const {parentElement} = texts.currentNode;
            const style = getComputedStyle(parentElement);
            if (parentElement.closest('.unseen, .name, .account, .find')
                || style.textOverflow === 'ellipsis')
                continue;
            const range = document.createRange();
            range.selectNodeContents(texts.currentNode);
            rects.push(...range.getClientRects());
        }
        return rects;
    };
    const out = seen.filter(e => {
        const {left, right, width} = e.getBoundingClientRect();
        return width > 1 && (left < -1 || right > edge) && !boxed(e.parentElement);
    });
    const cut = seen.filter(e => e.matches('button, .button, .badge, summary, h1, h2, h3, label'))
        .filter(e => words(e).some(({left, right}) => {
            const box = e.getBoundingClientRect();
            return left < box.left - 2 || right > box.right + 2;
        }));
    const controls = seen
        .filter(e => e.matches('a, button, input, select, textarea, summary'))
        .filter(e => !e.matches('[type=hidden], [data-show]'))
        .map(e => [e, words(e)]);
    const meets = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2
        && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
    const over = controls.filter(([a, of], place) => controls.slice(place + 1).some(
        ([b, others]) => !a.contains(b) && of.some(x => others.some(y => meets(x, y)))
    )).map(([e, _]) => e);
    return [...out, ...cut, ...over].map(e => e.outerHTML.slice(0, 200));
}"""
# Width of the window, and size of the text: phones, and text alone at 200 %.
ROOMS = ((320, 16), (390, 16), (1280, 32), (640, 32))


def test_german_pages_fit_phones_and_doubled_text_size(browser: Browser) -> None:
    context = browser.new_context(reduced_motion="reduce")
    tab = context.new_page()
    tab.route("**/*", answering(Brand("Acme", terms_url="/terms"), GERMAN))
    overflows: dict[tuple[str, int], list[str]] = {}
    for number, name in enumerate(widest(GERMAN)[::2]):
        tab.goto(f"{SERVER}/{name}")
        for width, size in ROOMS[number % 2 :: 2]:
            tab.set_viewport_size({"width": width, "height": 800})
            tab.evaluate("size => document.documentElement.style.fontSize = size", f"{size}px")
            overflows[name, width] = tab.evaluate(OUTSIDE)
    context.close()

    assert len(overflows) > 100
    assert {page: elements for page, elements in overflows.items() if elements} == {}


# Every control once, as the Tab key reaches it: which show no focus, which are reached in another
# order than they are read, and what looks as if it could be clicked and is no control.
_CONTROLS = """
    const look = e => {
        const {outlineStyle, outlineWidth, boxShadow, borderColor, backgroundColor} =
            getComputedStyle(e);
        const outline = outlineStyle === 'none' ? '' : outlineWidth;
        return [outline, boxShadow, borderColor, backgroundColor].join();
    };
    const around = e => [e, e.parentElement, ...(e.labels || [])];
    const seen = [...document.querySelectorAll('body *')].filter(
        e => e.checkVisibility({visibilityProperty: true}));
    const controls = seen.filter(e => e.matches(
        'a[href], button:not(:disabled), summary, select, textarea, input:not([type=hidden])'));
    const told = e => e.outerHTML.slice(0, 160);
"""
_UNFOCUSED = f"""() => {{ {_CONTROLS}
    return controls.filter(e => {{
        document.activeElement.blur();
        const before = around(e).map(look).join();
        e.focus();
        const {{width, height}} = e.getBoundingClientRect();
        return document.activeElement !== e || around(e).map(look).join() === before
            || width < 1 || height < 1;
    }}).map(told);
}}"""
# Where the page puts the focus into a field, the key leads on from there.
_FIRST = "document.querySelector('[autofocus]') ? 'skip' : document.activeElement.className"
_MISPLACED = f"""() => {{ {_CONTROLS}
    const disordered = seen.filter(e => {{
        const {{order, flexDirection}} = getComputedStyle(e);
        return order !== '0' || flexDirection.endsWith('reverse') || e.tabIndex > 0;
    }});
    const unreachable = seen.filter(e => getComputedStyle(e).cursor === 'pointer'
        && !e.closest('a[href], button, summary, select, label, input, textarea'));
    return [...disordered, ...unreachable].map(told);
}}"""


def test_every_control_is_focusable_by_keyboard_with_visible_focus(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    tab.route("**/*", answering(Brand("Acme", terms_url="/terms")))
    checked_kinds: set[object] = set()
    faults: dict[str, list[str]] = {}
    for name, reading in readings().items():
        kinds = {
            _kind(control)[2:]
            for control in reading.all("a", "button", "summary", "input", "select", "textarea")
        }
        if kinds <= checked_kinds:
            continue
        checked_kinds |= kinds
        tab.goto(f"{SERVER}/{name}")
        # Browsers show where the focus is once a key was pressed.
        tab.keyboard.press("Tab")
        first: str = tab.evaluate(_FIRST)
        faults[name] = [] if first == "skip" else [first]
        faults[name] += tab.evaluate(_MISPLACED)
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            faults[name] += tab.evaluate(_UNFOCUSED)
        for menu in tab.locator("[popovertarget]:visible").all():
            menu.focus()
            target = tab.locator(f"#{menu.get_attribute('popovertarget')}")
            for key in ("Enter", "Space"):
                tab.keyboard.press(key)
                faults[name] += [] if target.is_visible() else [f"{key} opens no menu"]
                tab.keyboard.press("Escape")
                faults[name] += ["Escape closes no menu"] if target.is_visible() else []
    context.close()

    assert len(faults) > 20
    assert {page: controls for page, controls in faults.items() if controls} == {}
