"""The documentation site: built without warnings, complete in itself, served from its archive."""

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from posixpath import dirname, join, normpath
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from docs import site
from docs.screenshots import GALLERY, shown_in_documents
from tests.authorization.pages.shown import AREAS
from tests.support.harness import Harness
from tests.support.visitors import run
from valetkey.authorization.apis.pages import FRAMEWORKS
from valetkey.authorization.site import documentation
from valetkey.authorization.site.documentation import DocumentationFile, address_of, read
from valetkey.testing.server import Servers

_REFERENCE = re.compile(r'<(?:a|img|link|script)\b[^>]*?\b(?:href|src)="([^"]+)"')
_LOADED = re.compile(r'<(?:script|img|link rel="(?:stylesheet|icon)")[^>]*(?:src|href)="([^"]+)"')


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("site") / "documentation.zip"
    assert 500_000 < site.build(path) < 4_000_000
    return path


def _texts(files: dict[str, DocumentationFile]) -> Iterator[tuple[str, str]]:
    for name, file in files.items():
        if name.endswith(".html"):
            yield name, gzip.decompress(file.gzip).decode()


def test_site_is_complete_and_loads_nothing_from_elsewhere(archive: Path) -> None:
    files = dict(read(archive))
    for name, text in _texts(files):
        assert "<script>" not in text
        assert not [address for address in _LOADED.findall(text) if "://" in address]
        local = (
            reference.partition("#")[0]
            for reference in _REFERENCE.findall(text)
            if ":" not in reference
        )
        named = {normpath(join(dirname(name), path)) for path in local if path}
        assert not [path for path in named - files.keys() if path != "."], name
    tabs = re.findall(r"md-tabs__link", gzip.decompress(files["index.html"].gzip).decode())
    assert len(tabs) == len(site.SECTIONS) <= 7
    index = gzip.decompress(files["llms.txt"].gzip).decode()
    named = set(re.findall(r"\]\(([^)]+\.md)\)", index))
    assert named == {name for name in files if name.endswith(".md")}
    documented = {page.docs for pages in AREAS.values() for page in pages if page.docs}
    assert len(documented) > 18
    assert documented < files.keys()


def test_frameworks_are_rendered_as_tabs(archive: Path) -> None:
    files = dict(read(archive))
    page = gzip.decompress(files["how-to/apis/protect-your-api.html"].gzip).decode()
    (labels,) = re.findall(r'<div class="tabbed-labels">(.*?)</div>', page, re.DOTALL)
    assert re.findall(r">([^<]+)</label>", labels) == [
        framework.label for framework in FRAMEWORKS.values()
    ]
    assert "=== " not in page
    assert "<!-- tabs" not in page


def test_every_picture_of_a_page_is_renewed_with_the_others() -> None:
    shown = {Path(path) for path in shown_in_documents()}
    # Those of the demo are taken from a running server.
    names = {path.name.rsplit("-", 2)[0] for path in shown if path.parent.name != "demo"}

    assert len(names) > 8
    assert names <= set(GALLERY)


def test_dead_link_stops_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/README.md").write_text("# Start\n\n[There](#nowhere)\n")
    monkeypatch.setattr(site, "ROOT", tmp_path)
    with pytest.raises(site.Broken, match="nowhere"):
        site.build(tmp_path / "documentation.zip")


def test_server_serves_only_its_own_copy_of_the_documentation(
    archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        start = await browser.get("/docs/")
        assert '<h1 id="valetkey">' in start.body
        assert start.header("content-type") == "text/html; charset=utf-8"
        assert "script-src 'self';" in start.header("content-security-policy")
        assert start.header("cache-control") == "public, no-cache"
        script = re.search(r"assets/javascripts/bundle\.[0-9a-f]+\.min\.js", start.body)
        assert script
        assert "immutable" in (await browser.get(f"/docs/{script[0]}")).header("cache-control")
        assert (await browser.get("/docs/reference/settings.md")).body.startswith("# Settings")
        for page in ("", "reference/settings.html", "llms.txt", script[0]):
            whole = await browser.get(f"/docs/{page}")
            tag = {"if-none-match": whole.header("etag")}
            answer = await browser.send("GET", f"/docs/{page}", headers=tag)
            assert (answer.status, answer.body) == (304, "")
            of_body = ("content-encoding", "content-length", "content-type")
            left = [pair for pair in whole.headers if pair[0] not in of_body]
            assert answer.headers == left, page
        for name in ("../pyproject.toml", "..%2f..%2fpages.py", "/etc/passwd", "%00", "reference"):
            assert (await browser.get(f"/docs/{name}")).status == 404, name

    assert site.ARCHIVE == documentation.ARCHIVE
    monkeypatch.setattr(documentation, "ARCHIVE", archive)
    run(tmp_path, story)
    issuer, page = "https://auth.example/", "how-to/people/groups"
    assert address_of(page, "", issuer) == f"https://auth.example/docs/{page}.html"
    elsewhere = "https://docs.example/valetkey"
    assert address_of(page, elsewhere, issuer) == f"{elsewhere}/{page}.html"


def test_checkout_without_a_site_says_how_to_build_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(it: Harness) -> None:
        browser = it.browser()
        for path in ("/docs/", "/docs/reference/settings.html"):
            missing = await browser.get(path)
            assert missing.status == 404
            assert "Run `make site` there and restart the server" in missing.body
        assert 'href="/docs/' not in (await browser.get("/")).body

    monkeypatch.setattr(documentation, "ARCHIVE", tmp_path / "missing.zip")
    run(tmp_path, story)
    named = address_of("how-to/people/groups", "", "https://auth.example")
    assert (Path(site.__file__).parent.parent / named).is_file()


# Last: the open browser has a running event loop in this thread.
KINDS = (
    "",
    "tutorials/first-server.html",
    "how-to/operate/install.html",
    "how-to/apis/protect-your-api.html",
    "reference/settings.html",
    "explanation/words.html",
    "decisions/index.html",
    "project/ARCHITECTURE.html",
)


def test_cached_pages_are_styled_as_on_the_first_visit(
    archive: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "ARCHIVE", archive)
    with Servers(tmp_path, with_resource=False) as servers:
        page = browser.new_page()
        refused: list[str] = []
        page.on("console", lambda message: refused.append(message.text))

        def look(path: str) -> object:
            page.goto(f"{servers.auth_url}/docs/{path}")
            page.locator("h1").first.wait_for()
            return page.evaluate(
                "[getComputedStyle(document.body).fontFamily, document.styleSheets.length]"
            )

        for path in KINDS:
            first = look(path)
            assert look(path) == first, path
        page.close()
    assert refused == []


GUIDES = {
    "how do I install it": "operate/install",
    "add a second admin": "operate/run-it-with-a-team",
    "reset a user's password": "people/help-desk",
    "user lost their phone": "people/second-factors",
    "account hacked": "people/secure-an-account",
    "restore from backup": "operate/back-up-and-restore",
    "upgrade to a new version": "operate/upgrade",
    "smtp": "operate/send-mail",
    "nginx reverse proxy": "operate/run-behind-a-proxy",
    "postgres": "operate/run-on-postgresql",
    "kubernetes helm": "operate/run-on-kubernetes",
    "rotate signing key": "operate/rotate-keys",
    "client secret leaked": "operate/rotate-keys",
    "prometheus alerts": "operate/monitor",
    "high availability second server": "operate/add-a-node",
    "change logo and colours": "operate/make-it-look-like-yours",
    "rate limit too many requests": "operate/adjust-rate-limits",
    "migrate from keyclok": "operate/migrate/from-keycloak",
    "login with google": "people/sign-in-from-elsewhere",
    "import users csv": "people/import-users",
    "gdpr export delete user data": "people/leave-and-take-data-along",
    "redirect_uri mismatch": "apps/find-out-why-a-request-failed",
    "invalid_grant": "apps/read-a-refusal",
    "go live check list": "operate/production-checklist",
    "validate access token in fastapi": "apis/protect-your-api",
}
"""What operators and developers type, and the guide that answers it."""


def test_search_finds_guides_first(
    archive: Path, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentation, "ARCHIVE", archive)
    with Servers(tmp_path, with_resource=False) as servers:
        page = browser.new_page()
        page.goto(f"{servers.auth_url}/docs/")
        page.locator(".md-search button").first.click()
        field, results = page.get_by_role("combobox"), page.get_by_role("option")

        def first(question: str) -> list[str]:
            field.fill("")
            results.first.wait_for(state="detached")
            field.fill(question)
            results.first.wait_for()
            links = [result.get_attribute("href") or "" for result in results.all()[:3]]
            return [urlsplit(link).path.removeprefix("/docs/") for link in links]

        answers = {question: first(question) for question in GUIDES}
        page.close()
    assert not {
        question: answers[question]
        for question, guide in GUIDES.items()
        if f"how-to/{guide}.html" not in answers[question]
    }
    notebook = ("decisions/", "project/", "explanation/what-was-tried")
    assert not [links for links in answers.values() if links[0].startswith(notebook)]
