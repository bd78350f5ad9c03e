"""A theme is read as the server starts, and what is wrong with it is told then."""

from pathlib import Path

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo

from tests.authorization.pages.examples.every import EXAMPLES
from tests.authorization.pages.reading import Reading
from valetkey.authorization.layout.assets import assets
from valetkey.authorization.layout.brand import Brand
from valetkey.authorization.layout.language import ENGLISH, GERMAN, LANGUAGES
from valetkey.authorization.layout.render import render
from valetkey.authorization.layout.theme import LARGEST_LOGO, LARGEST_STYLE, Theme, read_theme
from valetkey.authorization.layout.theme_check import check_theme, example, page_kinds
from valetkey.authorization.layout.viewer import Viewer
from valetkey.kernel.refusal import OperatorError

SHIPPED = Path(__file__).parents[5] / "examples" / "theme"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"></svg>'


def _theme(folder: Path, files: dict[str, str]) -> Brand:
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return Brand(theme=read_theme(folder))


def _words(file: Path, words: dict[str, str]) -> None:
    catalog = Catalog(locale="de", header_comment="")
    for english, text in words.items():
        catalog.add(english, text)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as target:
        write_mo(target, catalog)


def test_example_theme_is_valid_and_used_by_pages() -> None:
    brand = Brand("Fernhill Library", accent="#7a5c1e", theme=read_theme(SHIPPED))
    check_theme(brand)
    page = Reading(render(EXAMPLES["home_signed_out"], brand=brand))
    looks = assets(brand)

    sheets = [e.attributes["href"] for e in page.all("link") if "stylesheet" in str(e.attributes)]
    assert looks.theme is not None
    assert looks.logo is not None
    assert sheets == [looks.style.path, looks.theme.path]
    assert next(page.all("img")).attributes["src"] == looks.logo.path
    assert "The reading room" in page.the("main").text
    assert {looks.theme, looks.logo} <= set(looks)


@pytest.mark.parametrize("name", list(EXAMPLES)[::7])
def test_example_theme_renders_pages_of_every_area(name: str) -> None:
    brand = Brand(theme=read_theme(SHIPPED))

    assert b"</html>" in render(EXAMPLES[name], brand=brand)


def test_svg_logo_has_a_policy_that_runs_no_script(tmp_path: Path) -> None:
    logo = assets(_theme(tmp_path, {"logo.svg": f"{SVG}<!--<script>alert(1)</script>-->"})).logo

    assert logo is not None
    assert logo.content_type == "image/svg+xml"
    assert dict(logo.headers)["content-security-policy"].endswith("sandbox")
    assert "script-src" not in dict(logo.headers)["content-security-policy"]


def test_configured_logo_overrides_the_logo_of_the_theme(tmp_path: Path) -> None:
    brand = _theme(tmp_path, {"logo.svg": SVG})
    named = Brand(logo_url="/brand/logo.png", theme=brand.theme)

    image = next(Reading(render(EXAMPLES["sign_in"], brand=named)).all("img"))

    assert image.attributes["src"] == "/brand/logo.png"


@pytest.mark.parametrize(
    "style",
    [
        "a { background: url(http://evil.example/x.png) }",
        "a { background: URL( 'https://evil.example/x.png') }",
        "a { background: url(//evil.example/x.png) }",
        "a { background: url(/\\\\evil.example) }",
        "a { background: u\\72l(http://evil.example) }",
        "a { background: ur/**/l(x) } b { background: url(data:image/png;base64,AA) }",
        "a { background: url(\n  'x.png') }",
        '@import "http://evil.example/x.css";',
        'a { b: "/*"; background: url(http://evil.example/x); c: "*/" }',
        "a { b: '\\'/*'; background: url(http://evil.example/x); c: '*/' }",
        'a { background: image("http://evil.example/x") }',
        "@im\\70ort 'x';",
        "a { background: image-set('x.png' 1x) }",
        "a { width: expression(alert(1)) }",
    ],
)
def test_xs_07_stylesheet_that_loads_from_another_server_is_refused(
    tmp_path: Path, style: str
) -> None:
    with pytest.raises(OperatorError, match=r"style\.css: .*another server"):
        _theme(tmp_path, {"style.css": style})


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"styles.css": ""}, "nothing of this name"),
        ({"style.css": "a{}" * LARGEST_STYLE}, "more than"),
        ({"logo.svg": "<html>"}, "no SVG image"),
        ({"logo.png": "GIF89a"}, "no PNG image"),
        ({"logo.svg": SVG + " " * LARGEST_LOGO}, "more than"),
        ({"templates/home.php": ""}, "a template is"),
        ({"translations/fr.json": ""}, "TAG.mo"),
        ({"translations/../../x.mo": ""}, "not a directory"),
        ({"translations/languages.toml": "fr = 1"}, "cannot be read"),
        ({"translations/languages.toml": "fr"}, "cannot be read"),
        ({"translations/fr.mo": "nothing"}, "cannot be read"),
        ({"translations/FR_fr.mo": ""}, "TAG.mo"),
    ],
)
def test_invalid_theme_file_is_refused_with_the_reason(
    tmp_path: Path, files: dict[str, str], says: str
) -> None:
    if "not a directory" in says:
        with pytest.raises(OperatorError, match=says):
            read_theme(tmp_path / "nowhere")
        return
    with pytest.raises(OperatorError, match=says):
        _theme(tmp_path, files)


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("{% block main %}\n{% if %}\n{% endblock %}", 2, "Expected an expression"),
        ("<p>\n</p>\n{{ nonsense }}", 3, "'nonsense' is undefined"),
        ("\n{{ brand.__class__.__mro__ }}", 2, "unsafe"),
        ("\n{% include 'visitor/not_there.html' %}", 2, "not_there"),
        ("\n{{ brand.name|frobnicate }}", 2, "frobnicate"),
        ("\n{{ 1 / 0 }}", 2, "division"),
    ],
)
def test_broken_template_is_reported_with_file_and_line(
    tmp_path: Path, text: str, line: int, says: str
) -> None:
    start = '{% extends "layout/page.html" %}' if "block" in text else ""
    brand = _theme(tmp_path, {"templates/home.html": start + text})

    with pytest.raises(OperatorError) as caught:
        check_theme(brand)

    assert f"home.html, line {line}: " in caught.value.message
    assert says in caught.value.message


def test_values_in_theme_templates_are_escaped(tmp_path: Path) -> None:
    brand = _theme(tmp_path, {"templates/home.html": "<h1>{{ brand.name }}</h1>"})
    named = Brand("<script>\u202e", theme=brand.theme)

    assert render(EXAMPLES["home_signed_out"], brand=named) == b"<h1>&lt;script&gt;</h1>"


def test_most_pages_can_be_rendered_with_example_values() -> None:
    left_out = []
    for kind in page_kinds():
        made = [example(kind, full=full) for full in (False, True)]
        fits = 0
        for page in made:
            try:
                render(page, brand=Brand())
            except Exception:  # noqa: BLE001
                continue
            fits += 1
        if not fits:
            left_out.append(kind.__name__)

    assert len(left_out) <= len(page_kinds()) // 10, left_out


def test_theme_adds_languages_and_replaces_translations(tmp_path: Path) -> None:
    words = tmp_path / "translations"
    _words(words / "de.mo", {"Sign in": "Hereinspaziert"})
    _words(words / "en.mo", {"Sign in": "Join team"})
    _words(words / "ar.mo", {"Sign in": "دخول"})
    about = 'ar = { name = "العربية", direction = "rtl" }'
    (words / "languages.toml").write_text(about, encoding="utf-8")
    brand = Brand(theme=read_theme(tmp_path))
    page = EXAMPLES["sign_in_alone"]

    assert [language.tag for language in brand.languages] == [
        *(language.tag for language in LANGUAGES),
        "ar",
    ]
    arabic = brand.languages[-1]
    assert (arabic.name, arabic.direction) == ("العربية", "rtl")
    for language, heading in ((GERMAN, "Hereinspaziert"), (ENGLISH, "Join team"), (arabic, "دخول")):
        shown = Reading(render(page, brand=brand, viewer=Viewer(language, brand.languages, "/")))
        assert shown.the("h1").text == heading
        assert shown.the("html").attributes["dir"] == language.direction
        assert len(
            [b for b in shown.all("button") if b.attributes.get("name") == "language"]
        ) == len(LANGUAGES)


def test_themes_with_different_templates_are_not_equal(tmp_path: Path) -> None:
    template = tmp_path / "templates" / "consent" / "consent.html"
    template.parent.mkdir(parents=True)
    themes: list[Theme] = []
    for text in ("before", "after"):
        template.write_text(text)
        themes.append(read_theme(tmp_path))
    # Otherwise an application that replaces another in its process would have its templates.
    assert themes[0] != themes[1]
