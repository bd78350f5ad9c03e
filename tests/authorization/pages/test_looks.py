"""Pages in a real browser: nothing sticks out, everything can be hit, the policy is kept."""

from collections.abc import Iterator
from urllib.parse import parse_qs

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.authorization.pages.examples.developer import SCOPES
from tests.authorization.pages.examples.every import HOSTILE, consent
from tests.authorization.pages.shown import SERVER, answering, readings, widest
from tests.support.wait import wait_until
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import LANGUAGES, Language

BRAND = Brand("Acme", terms_url="/terms", privacy_url="/privacy")
# Links within a sentence are exempt (WCAG 2.2, 2.5.8); a box is hit through its label.
TOO_SMALL = """() => [...document.querySelectorAll('a, button, input, label.scope')]
    .filter(e => e.checkVisibility() && !e.matches('.by-return, .skip'))
    .filter(e => !['hidden', 'checkbox', 'radio'].includes(e.type))
    .filter(e => !e.closest('p:not(.papers), dl.facts') || e.matches('.button'))
    .filter(e => e.getBoundingClientRect().height < 44 || e.getBoundingClientRect().width < 24)
    .map(e => e.outerHTML)"""
STICKING_OUT = """() => [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('pre, svg, .tabs ul, .navigation ul'))
    .filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
    .map(e => e.outerHTML)"""
STICKING_OUT_LEFT = """() => [...document.querySelectorAll('body *')]
    .filter(e => !e.closest('pre, svg, .tabs ul, .navigation ul') && e.checkVisibility())
    .filter(e => e.getBoundingClientRect().left < -1)
    .map(e => e.outerHTML)"""
# Words that break after a few letters, because their column is too narrow.
CRAMPED = """() => [...document.querySelectorAll('main *')]
    .filter(e => e.checkVisibility() && !e.closest('.unseen, svg, pre'))
    .flatMap(e => [...e.childNodes])
    .filter(node => node.nodeType === Node.TEXT_NODE && node.data.trim().length > 2)
    .filter(node => {
        const range = document.createRange();
        range.selectNodeContents(node);
        const lines = new Set([...range.getClientRects()].map(rect => Math.round(rect.top))).size;
        const words = node.data.trim().split(/\\s+/).length;
        return lines > words && node.data.trim().length / lines < 8;
    })
    .map(node => node.parentElement.outerHTML)"""
MOVING = """() => [...document.querySelectorAll('*')]
    .map(e => [e, getComputedStyle(e)])
    .filter(([_, style]) => [style.transitionDuration, style.animationDuration]
        .some(times => times.split(',').some(time => parseFloat(time) > 0.01)))
    .map(([e, _]) => e.outerHTML)"""
# What colors alone show: the current page, the states of things, the bars of a chart.
OUTLINED = """() => [...document.querySelectorAll('[aria-current], .badge')]
    .filter(e => e.checkVisibility())
    .map(e => [e, getComputedStyle(e)])
    .filter(([_, style]) => parseFloat(style.borderTopWidth) < 1 && style.outlineStyle === 'none')
    .map(([e, _]) => e.outerHTML)"""
# A small phone, a desktop on which pages are shown at twice their size, and a desktop.
WIDTHS = (320, 640, 1600)
# Written from right to left, with words that are not: what is left behind is on the wrong side.
MIRRORED = Language("he", "עברית", direction="rtl")
FOCUS = """() => {
    const style = getComputedStyle(document.activeElement);
    return [document.activeElement.id, style.outlineStyle, parseFloat(style.outlineWidth)];
}"""


@pytest.fixture
def tab(browser: Browser) -> Iterator[Page]:
    """A tab that gets the examples by their names; complaints of the browser fail the test."""
    context = browser.new_context(java_script_enabled=True)
    tab = context.new_page()
    complaints: list[str] = []
    # Advice on forms with a password, which may be the secret of an app.
    tab.on("console", lambda m: None if "[DOM]" in m.text else complaints.append(m.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.route("**/*", answering(BRAND))
    yield tab
    context.close()
    # What was typed wrong stands in its field again, and the browser says that it is wrong.
    assert not [
        complaint for complaint in complaints if "does not conform to the required" not in complaint
    ]


def test_elements_stay_inside_the_page_and_targets_are_large_enough(tab: Page) -> None:
    faults: dict[tuple[str, int], list[str]] = {}
    for name in widest():
        tab.goto(f"{SERVER}/{name}")
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 700})
            faults[name, width] = [*tab.evaluate(STICKING_OUT), *tab.evaluate(TOO_SMALL)]
        if not name.endswith(("hostile", "long")):
            faults[name, WIDTHS[-1]] += tab.evaluate(CRAMPED)

    assert len(faults) > 100
    assert {page: elements for page, elements in faults.items() if elements} == {}


def test_elements_stay_inside_the_page_in_right_to_left_layout(browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 320, "height": 700})
    tab = context.new_page()
    tab.route("**/*", answering(BRAND, MIRRORED))
    faults: dict[str, list[str]] = {}
    for name in widest(MIRRORED)[::2]:
        tab.goto(f"{SERVER}/{name}")
        faults[name] = [*tab.evaluate(STICKING_OUT), *tab.evaluate(STICKING_OUT_LEFT)]
    context.close()

    assert {name: elements for name, elements in faults.items() if elements} == {}


def test_forced_colors_keep_outlines_and_chart_bars_visible(tab: Page) -> None:
    tab.emulate_media(forced_colors="active")
    faults: dict[str, list[str]] = {}
    for name in ("admin_users", "admin_user", "usage", "sessions", "health"):
        tab.goto(f"{SERVER}/{name}")
        faults[name] = tab.evaluate(OUTLINED)
        for bars in tab.locator(".chart .bars").all():
            fill = bars.evaluate("e => getComputedStyle(e).fill")
            assert fill != tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert {name: elements for name, elements in faults.items() if elements} == {}


def test_reduced_motion_preference_stops_all_animation(tab: Page) -> None:
    tab.emulate_media(reduced_motion="reduce")
    faults: dict[str, list[str]] = {}
    for name in ("sign_in", "consent", "usage", "admin_users", "admin_events"):
        tab.goto(f"{SERVER}/{name}")
        faults[name] = tab.evaluate(MOVING)

    assert {name: elements for name, elements in faults.items() if elements} == {}


def test_sign_in_and_consent_fit_a_small_phone_in_every_language(browser: Browser) -> None:
    faults: dict[tuple[str, str], list[str]] = {}
    for language in LANGUAGES[1:]:
        context = browser.new_context(viewport={"width": 320, "height": 700})
        tab = context.new_page()
        tab.route("**/*", answering(BRAND, language))
        for name in ("sign_in", "sign_in_alone", "consent"):
            tab.goto(f"{SERVER}/{name}")
            faults[language.tag, name] = [*tab.evaluate(STICKING_OUT), *tab.evaluate(TOO_SMALL)]
        context.close()

    assert {page: elements for page, elements in faults.items() if elements} == {}


def test_focus_is_visible_on_every_control(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent")
    seen: list[str] = []
    for _ in range(6):
        tab.keyboard.press("Tab")
        name, style, width = tab.evaluate(FOCUS)
        seen.append(name)
        assert style == "solid"
        assert width >= 2

    assert seen == ["", "switch-account", "scope-2", "scope-3", "deny", "allow"]


def test_buttons_that_need_a_script_are_hidden_without_one(browser: Browser) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.route("**/*", answering(BRAND))
    checked_kinds: set[object] = set()
    buttons: dict[str, list[str]] = {}
    for name, reading in readings().items():
        scripted = [
            button for button in reading.all("button") if button.attributes["type"] == "button"
        ]
        kinds = {tuple(sorted(button.attributes)) for button in scripted}
        if kinds <= checked_kinds:
            continue
        checked_kinds |= kinds
        tab.goto(f"{SERVER}/{name}")
        shown = tab.locator("button[type=button]:not([popovertarget]):visible").all()
        buttons[name] = [button.evaluate("e => e.outerHTML") for button in shown]
    context.close()

    assert checked_kinds
    assert {name: elements for name, elements in buttons.items() if elements} == {}


def test_consent_form_sends_the_chosen_scopes(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent")
    tab.uncheck("#scope-3")
    with tab.expect_request("**/oauth/consent*") as sent:
        tab.click("#allow")

    fields = parse_qs(sent.value.post_data or "")
    assert fields.pop("required") == ["account:read"]
    assert fields == {"csrf": ["csrf-value"], "scope": ["notes:read"], "decision": ["allow"]}


def test_page_follows_the_color_scheme_of_the_browser(tab: Page) -> None:
    tab.goto(f"{SERVER}/sign_in")
    tab.emulate_media(color_scheme="light")
    light = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    tab.emulate_media(color_scheme="dark")
    dark = tab.evaluate("getComputedStyle(document.body).backgroundColor")

    assert [light, dark] == ["rgb(244, 245, 247)", "rgb(15, 17, 20)"]


def test_chart_shows_the_value_selected_by_pointer_or_arrow_keys(tab: Page) -> None:
    tab.goto(f"{SERVER}/usage")
    chart = tab.locator("figure.chart").first
    plot, reading = chart.locator("svg"), chart.locator(".reading")
    points = (chart.get_attribute("data-points") or "").split("\n")
    assert not reading.is_visible()

    plot.hover()
    # The middle lies between two bars.
    assert reading.inner_text() in points[len(points) // 2 - 1 : len(points) // 2 + 1]
    tab.mouse.move(0, 0)
    assert not reading.is_visible()

    plot.focus()
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowLeft")
    assert reading.inner_text() == plot.get_attribute("aria-valuetext") == points[-2]


def test_the_menu_of_the_console_has_headings_and_opens_by_the_keyboard_on_a_phone(
    tab: Page,
) -> None:
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.goto(f"{SERVER}/admin_users")
    menu = tab.get_by_role("navigation", name="Administration")
    people = menu.get_by_role("list", name="People").get_by_role("link")
    assert people.all_inner_texts() == ["Users", "Groups", "Roles", "Attributes", "SCIM"]
    assert not menu.locator("summary").is_visible()
    tab.set_viewport_size({"width": 390, "height": 844})
    assert not people.first.is_visible()
    menu.locator("summary").focus()
    tab.keyboard.press("Enter")
    assert people.first.is_visible()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent.trim()") == "Overview"


def test_the_menu_of_the_viewer_works_by_keyboard_without_a_script_on_a_phone(
    browser: Browser,
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    tab = context.new_page()
    tab.route("**/*", answering(BRAND))
    ways = {"sessions": 2, "app": 3, "admin_users": 4}
    shown = {}
    for name in ways:
        tab.goto(f"{SERVER}/{name}")
        # The first stop is the link that skips the navigation; account has no search.
        for _ in range(2 if name == "sessions" else 3):
            tab.keyboard.press("Tab")
        menu = tab.get_by_role("navigation", name="Areas")
        links = menu.get_by_role("link")
        assert not menu.is_visible()
        tab.keyboard.press("Enter")
        assert menu.locator("p").inner_text() == "Ada Lovelace\nada@example.com"
        shown[name] = links.count()
        assert menu.locator("[aria-current]").count() == 1
        assert links.last.inner_text() == "Sign out"
        tab.keyboard.press("Escape")
        assert not menu.is_visible()
        tab.get_by_role("button", name="Ada Lovelace").click()
        box = menu.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        tab.mouse.click(20, 800)
        assert not menu.is_visible()
    context.close()

    assert shown == ways


def test_tabs_on_a_phone_scroll_to_the_current_one_and_fade_at_hidden_ends(
    browser: Browser,
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    tab = context.new_page()
    tab.route("**/*", answering(BRAND))
    for name, kind in (
        ("data", ".navigation"),
        ("profile", ".navigation"),
        ("activity", ".tabs"),
    ):
        tab.goto(f"{SERVER}/{name}")
        tabs = tab.locator(f"{kind} ul").filter(has=tab.locator("[aria-current]"))
        current = tabs.locator("[aria-current]")
        expect(current).to_be_in_viewport(ratio=1)
        assert tabs.evaluate("e => e.scrollWidth > e.clientWidth")
        for end in (0, 10_000):
            tabs.evaluate("(e, left) => e.scrollTo(left, 0)", end)
            fades = [end > 0, end == 0]
            # A scroll fades from the next frame on.
            wait_until(
                lambda tabs=tabs, fades=fades: (  # type: ignore[misc]
                    [_fades(tabs, edge) for edge in ("start", "end")] == fades
                ),
                f"{name} does not fade at {end}",
            )
    tab.goto(f"{SERVER}/own_apps")
    assert not any(_fades(tab.locator(".navigation ul"), edge) for edge in ("start", "end"))
    context.close()


def _fades(tabs: Locator, edge: str) -> bool:
    """Return whether the tabs fade at this edge."""
    width = tabs.evaluate(
        "(e, name) => getComputedStyle(e).getPropertyValue(name)", f"--fade-{edge}"
    )
    return float(str(width).removesuffix("px")) > 16


def test_quickstart_steps_are_in_order_and_usable_by_keyboard_without_script(
    browser: Browser,
) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    tab = context.new_page()
    tab.route("**/*", answering(BRAND))
    tab.goto(f"{SERVER}/quickstart")
    steps = tab.locator("ol.steps > li > h2").all_inner_texts()
    assert steps == [
        "Choose your framework",
        "Get the credentials",
        "Make the first request",
        "Try it",
    ]
    # The menu of the app says where one is.
    assert tab.locator(".of-app summary").inner_text().split("\n")[-1] == "Quickstart"
    grafana = tab.get_by_role("link", name="Grafana")
    assert not grafana.is_visible()
    tab.locator(".chooser summary").focus()
    tab.keyboard.press("Enter")
    assert grafana.is_visible()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    assert tab.get_by_role("link", name="Try it in the browser").is_visible()
    context.close()


def test_permissions_can_be_filtered(tab: Page) -> None:
    tab.goto(f"{SERVER}/new_app")
    shown = tab.locator("#scopes-choices > :visible")
    assert shown.count() == len(SCOPES)

    tab.fill("#scopes-choices-filter", "Your NOTES read")
    assert shown.all_inner_texts() == ["notes", "read your notes\nnotes:read"]
    tab.fill("#scopes-choices-filter", "")
    assert shown.count() == len(SCOPES)


def test_malicious_app_name_does_not_reorder_the_heading(tab: Page) -> None:
    tab.goto(f"{SERVER}/consent_hostile")

    heading = tab.inner_text("h1")

    assert heading.endswith("wants to use your Acme account")
    assert "<script>alert(1)</script>" in heading
    assert consent(HOSTILE).app.name not in heading
