"""The reference says what the code says."""

from xml.etree.ElementTree import fromstring

from docs.diagrams import DIAGRAMS
from docs.generate import FOLDER, rendered
from tests.documents.pages import blocks, pages, text
from valetkey.config.catalogue import catalogue, reasons

BY_HAND = {
    "authorization-request.md",
    "client-authentication.md",
    "health.md",
    "helm-chart.md",
    "import-file.md",
    "keycloak.md",
    "log.md",
    "object-api.md",
    "openid-certification.md",
    "openid-requirements.md",
    "scim.md",
    "sdk.md",
    "security-events.md",
    "sign-in-providers.md",
    "ten-faults.md",
    "webhooks.md",
}


def test_generated_pages_are_up_to_date() -> None:
    stale = [
        name
        for name, written in rendered().items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != written
    ]
    assert not stale, "run `make docs`"


def test_reference_has_no_obsolete_pages() -> None:
    files = (path for path in FOLDER.rglob("*") if path.is_file())
    assert {path.relative_to(FOLDER).as_posix() for path in files} == {
        name for name in rendered() if not name.startswith("../")
    } | BY_HAND


def test_diagrams_are_drawn_for_dark_too_described_and_shown() -> None:
    shown = "".join(map(text, pages()))
    for name, drawn in DIAGRAMS.items():
        picture = "".join(drawn())
        described = fromstring(picture).findtext("{http://www.w3.org/2000/svg}desc") or ""
        assert len(described.split()) > 20
        assert "prefers-color-scheme:dark" in picture
        assert f"diagrams/{name}.svg)" in shown


def test_every_setting_has_its_reason() -> None:
    assert not [path for path in catalogue() if not reasons().get(path)]


def test_every_code_block_has_a_known_language() -> None:
    languages = {
        "",
        "sh",
        "toml",
        "yaml",
        "python",
        "sql",
        "http",
        "json",
        "nginx",
        "ini",
        "javascript",
        "text",
        "console",
        "html",
        "jinja",
        "diff",
        "java",
        "go",
    }
    assert not [
        f"{page}: {block.language}"
        for page in pages()
        for block in blocks(page)
        if block.language not in languages
    ]
