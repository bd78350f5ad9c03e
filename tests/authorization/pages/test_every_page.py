"""What holds for every page there is, and for every template."""

from collections.abc import Mapping
from importlib import resources
from itertools import pairwise
from pathlib import Path

import pytest
from jinja2 import meta, nodes

from tests.authorization.pages.examples.every import EXAMPLES, HOSTILE
from tests.authorization.pages.reading import Reading
from tests.authorization.pages.shown import area_of, navigation_for, viewer_of
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import ENGLISH
from valetkey.authorization.layout.render import environment_of, render
from valetkey.authorization.site.account.profile import ProfilePage
from valetkey.authorization.site.admin.events.events import EventsPage
from valetkey.authorization.site.admin.overview import ConsoleOverviewPage
from valetkey.authorization.site.admin.server.api import ApiReferencePage

BRAND = Brand(
    "Acme & Söhne",
    logo_url="/brand/logo.svg",
    terms_url="/terms",
    privacy_url="https://acme.example/privacy",
)
GIVEN = {"csrf", "brand", "assets", "address", "parts", "times", "_", "gettext", "ngettext"}
GIVEN_TOO = {
    "passwords",
    "factors",
    "mailed",
    "viewer",
    "menu",
    "page_title",
    "scripts",
    "area",
    "areas",
    "here",
    "way",
    "components",
    "things",
    "row",
    "loop",
}
IMPORTED = {"consent", "passwords", "factors", "mailed", "lists", "fault_of"}
TEMPLATES = environment_of(ENGLISH)


@pytest.fixture(scope="module")
def rendered() -> Mapping[str, bytes]:
    """Every example, rendered once."""
    return {
        name: render(page, brand=BRAND, navigation=navigation_for(page), csrf="csrf-value")
        for name, page in EXAMPLES.items()
    }


@pytest.fixture(scope="module")
def readings(rendered: Mapping[str, bytes]) -> Mapping[str, Reading]:
    """Every example, parsed once."""
    return {name: Reading(page) for name, page in rendered.items()}


def _templates() -> list[str]:
    root = Path(str(resources.files("valetkey.authorization"))) / "site"
    return [
        str(file.relative_to(root))
        for file in sorted(root.rglob("*.html"))
        if file.name not in {"parts.html", "frame.html", "factors.html"}
    ]


def test_page_is_well_formed_with_title_and_heading(readings: Mapping[str, Reading]) -> None:
    for name, reading in readings.items():
        (title,) = [element.text for element in reading.inside(reading.the("head"), "title")]

        assert title.endswith(" – Acme & Söhne"), name
        assert reading.the("h1").text, name
        assert reading.the("html").attributes["lang"] == "en", name
        assert reading.the("main").text, name


def test_pages_have_no_inline_script_or_style(readings: Mapping[str, Reading]) -> None:
    ours = {script.path for script in assets(BRAND).scripts.values()}
    for page, reading in readings.items():
        framed = list(reading.all("style", "iframe", "object", "base"))
        # The preview of the brand, in which no script runs.
        assert not [e for e in framed if e.attributes.get("sandbox") != "allow-same-origin"], page
        assert all(script.attributes["src"] in ours for script in reading.all("script")), page
        assert not any(script.text.strip() for script in reading.all("script")), page
        for element in reading.elements:
            attributes = element.attributes
            assert not [n for n in attributes if n.startswith("on") or n == "style"], page
            for name in ("href", "src", "action"):
                assert not attributes.get(name, "").lower().startswith(("javascript:", "data:")), (
                    page
                )


def test_links_to_policies_of_apps_have_rel_nofollow(readings: Mapping[str, Reading]) -> None:
    for name, reading in readings.items():
        links = reading.all("a")
        papers = [a for a in links if "papers" in a.holders[-1].attributes.get("class", "")]
        theirs = [a for a in papers if a.attributes["href"].startswith("https://")]

        assert {a.attributes.get("rel") for a in theirs} <= {"noopener noreferrer nofollow"}, name


def test_page_has_headings_in_order(readings: Mapping[str, Reading]) -> None:
    for name, reading in readings.items():
        levels = [int(heading.name[1]) for heading in reading.all("h1", "h2", "h3", "h4")]

        assert levels[0] == 1, name
        assert all(after <= before + 1 for before, after in pairwise(levels)), name


def test_forms_are_posted_to_this_server_with_the_csrf_value(
    readings: Mapping[str, Reading],
) -> None:
    for name, reading in readings.items():
        for form in reading.all("form"):
            inputs = list(reading.inside(form, "input"))
            hidden = [field for field in inputs if field.attributes.get("name") == "csrf"]
            if "data-path" in form.attributes:
                # Sent by its script, with a token and without cookies; hidden without a script.
                assert "hidden" in form.holders[-1].attributes, name
                continue
            if form.attributes.get("role") == "search":
                # Looking for something changes nothing, and its address can be kept.
                assert form.attributes["method"] == "get", name
                assert not hidden, name
                continue
            assert form.attributes["method"] == "post", name
            assert form.attributes["action"].startswith("/"), name
            assert [field.attributes["value"] for field in hidden] == ["csrf-value"], name
            assert list(reading.inside(form, "button")), name


def test_every_input_has_a_label_and_ids_are_unique(readings: Mapping[str, Reading]) -> None:
    for name, reading in readings.items():
        ids = [e.attributes["id"] for e in reading.elements if "id" in e.attributes]
        labelled = {label.attributes["for"]: label.text for label in reading.all("label")}

        assert len(ids) == len(set(ids)), name
        for entry in reading.all("input"):
            if entry.attributes.get("type") != "hidden":
                assert labelled[entry.attributes["id"]], name
        for element in reading.elements:
            described = element.attributes.get("aria-describedby", "")
            assert set(described.split()) <= set(ids), name


def test_every_image_has_alt_text_width_and_height(
    readings: Mapping[str, Reading],
) -> None:
    for name, reading in readings.items():
        for image in reading.all("img"):
            assert {"alt", "width", "height"} <= set(image.attributes), name


_LARGE = (ApiReferencePage, ProfilePage, EventsPage, ConsoleOverviewPage)


def test_page_and_its_assets_are_smaller_than_the_limit() -> None:
    sizes = {asset.path: len(asset.body) for asset in assets(BRAND)}
    loads = dict.fromkeys(sizes, 0)
    for name, page in EXAMPLES.items():
        html = render(page, brand=BRAND, viewer=viewer_of(page), navigation=navigation_for(page))
        loaded = [path for path in sizes if f'"{path}"'.encode() in html]
        loads |= {path: loads[path] + 1 for path in loaded}
        # The portal and the console have charts and long lists. The reference of the admin API
        # grows with its operations; a profile has 490 time zones; the event log has every field of
        # its events, and every name as a filter; the console's overview has seven charts.
        # Pages of the console and of the portal load the script of the search, 5 kB;
        # forms that of lists, 2 kB.
        grown = 66_000 if area_of(page) in {"developer", "admin"} else 50_000
        limit = 88_000 if isinstance(page, _LARGE) else grown
        assert len(html) + sum(map(sizes.__getitem__, loaded)) < limit, name
    # What no example loads is not counted.
    assert all(loads.values()), loads


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n.endswith("hostile")])
def test_malicious_name_is_escaped_on_every_page(name: str) -> None:
    page = render(EXAMPLES[name], brand=BRAND)

    assert b"<script>" not in page
    assert HOSTILE.name.encode() not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.decode()
    assert "{{ 7*7 }} %(name)s %s" in page.decode()


@pytest.mark.parametrize("name", [n for n in EXAMPLES if n.endswith("hostile")])
def test_names_are_in_bdi_elements_without_bidirectional_controls(name: str) -> None:
    page = render(EXAMPLES[name], brand=BRAND).decode()
    reading = Reading(page.encode())

    assert not {"\u202e", "\u2066", "\u2067", "\u2069"} & set(page)
    holding = [e for e in reading.elements if "alert(1)" in e.text]
    innermost = [e for e in holding if not any(e in other.holders for other in holding)]
    # A title has no elements; there, taking out the controls is all that can be done.
    assert {e.name for e in innermost} - {"title"} == {"bdi"}


@pytest.mark.parametrize("template", _templates())
def test_template_uses_only_fields_of_its_page(template: str) -> None:
    loader = TEMPLATES.loader
    assert loader is not None
    source, _, _ = loader.get_source(TEMPLATES, template)
    pages = [page for page in EXAMPLES.values() if page.template == template]

    variables = meta.find_undeclared_variables(TEMPLATES.parse(source))

    assert pages, "add an example of this page to tests/authorization/pages/examples"
    assert variables <= set(pages[0].__struct_fields__) | GIVEN | GIVEN_TOO | IMPORTED


@pytest.mark.parametrize("template", _templates())
def test_no_macro_has_the_name_of_a_page_field(template: str) -> None:
    taken: set[str] = set()
    waiting = [template]
    while waiting:
        loader = TEMPLATES.loader
        assert loader is not None
        tree = TEMPLATES.parse(loader.get_source(TEMPLATES, waiting.pop())[0])
        for node in tree.body:
            if isinstance(node, nodes.Extends) and isinstance(node.template, nodes.Const):
                waiting.append(node.template.value)
            elif isinstance(node, nodes.Import):
                taken.add(node.target)
            elif isinstance(node, nodes.FromImport):
                taken.update(name if isinstance(name, str) else name[1] for name in node.names)
            elif isinstance(node, nodes.Macro):
                taken.add(node.name)
    pages = [page for page in EXAMPLES.values() if page.template == template]

    assert not taken & {name for page in pages for name in page.__struct_fields__}


def test_errors_are_not_inside_closed_sections(readings: Mapping[str, Reading]) -> None:
    for name, reading in readings.items():
        for element in reading.elements:
            if "aria-invalid" in element.attributes or element.attributes.get("role") == "alert":
                closed = [
                    it
                    for it in element.holders
                    if it.name == "details" and "open" not in it.attributes
                ]
                assert not closed, (name, element.text)
