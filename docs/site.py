"""Build the documentation site with Zensical into one archive: `make site`.

The archive belongs to the wheel, and the authorization server serves it under `/docs/`. Building
needs neither the network nor the package. See docs/decisions/0036.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from textwrap import indent

ROOT = Path(__file__).parents[1]
ARCHIVE = ROOT / "src/valetkey/authorization/site/documentation.zip"
START = "docs/README.md"
NOTICE = "<!-- Written from the code by `make docs`. Change the code, not this page. -->"
"""The first line of generated pages, which the site leaves out."""


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation: the folders of its pages, and their weight in the search."""

    folders: tuple[str, ...]
    weight: float = 1.0

    def has(self, path: str) -> bool:
        """Return whether a page belongs to it."""
        return path.startswith(self.folders)


SECTIONS = {
    "Start": Section((START, "docs/tutorials/", "docs/explanation/in-pictures.md"), 1.1),
    "Operate": Section(("docs/how-to/operate/",), 1.2),
    "Apps": Section(("docs/how-to/apps/",), 1.2),
    "Users": Section(("docs/how-to/people/",), 1.2),
    "APIs": Section(("docs/how-to/apis/",), 1.2),
    "Reference": Section(
        (
            "docs/reference/",
            *(
                f"docs/explanation/{name}.md"
                for name in (
                    "comparison",
                    "how-much-you-need",
                    "known-limits",
                    "requests-this-server-makes",
                    "threat-model",
                    "versions",
                    "words",
                )
            ),
        ),
        0.7,
    ),
    "Project": Section(("",), 0.3),
}
"""Entries of the navigation. A page belongs to the first that has it: guides are found before the
reference, and both before decisions, measurements and the files of the repository."""
_STYLE = ROOT / "docs/site.css"
_ICON = ROOT / "src/valetkey/authorization/layout/styles/icon.svg"
_COLOR = "#2456d6"
"""The color of the icon: the default of the brand."""
_GROUPS = {"docs/explanation/": "Background", "docs/decisions/": "Decisions"}
"""Folders whose pages are a group of their own, at the end of their section."""

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_VERSION: str = _PROJECT["version"]
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_IMAGE = re.compile(r'\b(?P<name>src|srcset)="(?P<target>[^"]+)"')
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)
_KEYWORDS = re.compile(r"^<!-- search: (.*?) -->\n", re.MULTILINE | re.DOTALL)
_SEARCH = re.compile(r"assets/javascripts/workers/search\.[0-9a-f]+\.min\.js")
_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->\n", re.MULTILINE | re.DOTALL)
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
_CONFIGURATION = """
[project]
site_name = "Valetkey {version}"
site_description = "OAuth 2 and OpenID Connect, self-hosted"
use_directory_urls = false
extra_css = ["site.css"]
nav = {nav}
[project.theme]
font = false
logo = "icon.svg"
favicon = "icon.svg"
features = ["content.code.copy", "content.tabs.link", "navigation.footer", "navigation.indexes",
  "navigation.path", "navigation.prune", "navigation.tabs", "navigation.top", "search.highlight",
  "toc.follow"]
[[project.theme.palette]]
media = "(prefers-color-scheme)"
toggle = {{ icon = "lucide/sun-moon", name = "Use light mode" }}
[[project.theme.palette]]
media = "(prefers-color-scheme: light)"
scheme = "default"
toggle = {{ icon = "lucide/sun", name = "Use dark mode" }}
[[project.theme.palette]]
media = "(prefers-color-scheme: dark)"
scheme = "slate"
toggle = {{ icon = "lucide/moon", name = "Use the system's mode" }}
[project.extra]
generator = false
[project.markdown_extensions]
admonition = {{}}
attr_list = {{}}
md_in_html = {{}}
tables = {{}}
pymdownx.highlight.pygments_lang_class = true
pymdownx.superfences = {{}}
pymdownx.tabbed.alternate_style = true
[project.markdown_extensions.toc]
permalink = true
slugify = {{ object = "pymdownx.slugs.slugify", kwds = {{ case = "lower" }} }}
"""


class Broken(Exception):
    """The build failed; the message is the output of Zensical."""


@dataclass(frozen=True, slots=True)
class Page:
    """A Markdown file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @property
    def title(self) -> str:
        """Return the first heading."""
        return next(line[2:] for line in self.text.splitlines() if line.startswith("# "))

    @property
    def summary(self) -> str:
        """Return the first paragraph in one line, without links."""
        body = _FENCE.sub("", self.text)
        paragraphs = (part.strip() for part in body.partition("\n")[2].split("\n\n"))
        prose = next((part for part in paragraphs if part[:1].isalnum()), "")
        return " ".join(_LINK.sub(r"\g<text>", prose).split())

    @property
    def keywords(self) -> str:
        """Return the words that readers search for and the page does not contain."""
        return " ".join(" ".join(_KEYWORDS.findall(self.text)).split())

    @property
    def section(self) -> str:
        """Return the entry of the navigation that has it."""
        return next(title for title, section in SECTIONS.items() if section.has(self.path))

    @property
    def place(self) -> str:
        """Return its path in the site."""
        path = self.path.removeprefix("docs/")
        path = path if path != self.path else f"project/{path}"
        return path.replace("README.md", "index.md")


def build(out: Path) -> int:
    """Write the archive; return its size in bytes. Raises Broken for any warning."""
    pages = _pages()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page in pages.values():
            _write(folder / "docs" / page.place, _staged(page, pages).encode())
        for image in sorted({image for page in pages.values() for image in _images(page)}):
            target = folder / "docs" / image.removeprefix("docs/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / image, target)
        shutil.copy(_STYLE, folder / "docs")
        icon = _ICON.read_text("utf-8").replace("FILL", _COLOR).replace("INK", "#ffffff")
        _write(folder / "docs/icon.svg", icon.encode())
        nav = json.dumps(list(_navigation(pages))).replace('": ', '" = ')
        (folder / "zensical.toml").write_text(
            _CONFIGURATION.format(nav=nav, version=_VERSION), encoding="utf-8"
        )
        _zensical(folder)
        site = folder / "site"
        for unused in ("404.html", "sitemap.xml"):
            (site / unused).unlink(missing_ok=True)
        _search(site, pages)
        for html in sorted(site.rglob("*.html")):
            _without_inline_scripts(site, html)
        for page in pages.values():
            _write(site / page.place, (folder / "docs" / page.place).read_bytes())
        _write(site / "llms.txt", "\n".join(_llms(pages)).encode())
        return _pack(site, out)


def _pages() -> Mapping[str, Page]:
    """Return every page linked from the start page, in that order."""
    pages: dict[str, Page] = {}
    waiting = [START]
    while waiting:
        path = waiting.pop(0)
        if path not in pages and (ROOT / path).is_file():
            page = Page(
                path, (ROOT / path).read_text(encoding="utf-8").replace(NOTICE, "").lstrip()
            )
            pages[path] = page
            targets = (_resolved(path, target) for _, target in _links(page))
            waiting += [target for target in targets if target.endswith(".md")]
    return pages


def _links(page: Page) -> Iterator[tuple[bool, str]]:
    prose = _CODE.sub("", _FENCE.sub("", page.text))
    for link in _LINK.finditer(prose):
        yield bool(link["image"]), link["target"]
    for image in _IMAGE.finditer(prose):
        yield True, image["target"]


def _images(page: Page) -> Iterator[str]:
    for image, target in _links(page):
        if image and "://" not in target:
            yield _resolved(page.path, target)


def _resolved(path: str, target: str) -> str:
    file = target.partition("#")[0]
    return normpath(str(PurePosixPath(path).parent / file)) if file else path


def _staged(page: Page, pages: Mapping[str, Page]) -> str:
    """Return the page with the links of the site; links to source files become plain text."""
    here = str(PurePosixPath(page.place).parent)

    def moved(link: re.Match[str]) -> str:
        text, target = link["text"], link["target"]
        if "://" in target or target.startswith("#"):
            return link[0]
        path, fragment = _resolved(page.path, target), target.partition("#")[2]
        if link["image"]:
            return f"![{text}]({relpath(path.removeprefix('docs/'), here)})"
        if path not in pages:
            return text
        page_path = relpath(pages[path].place, here)
        return f"[{text}]({page_path}{'#' + fragment if fragment else ''})"

    # The text of a link may be code, so only fenced blocks are left as they are.
    parts = _FENCE.split(_KEYWORDS.sub("", page.text))
    text = "".join(part if part.startswith("```") else _LINK.sub(moved, part) for part in parts)
    return _TABS.sub(lambda match: "".join(_tabs(match[1])), text)


def _tabs(sections: str) -> Iterator[str]:
    """Turn the marked sections of a page into tabs, named after their headings."""
    for part in re.split(r"^## ", sections, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        yield f'=== "{title}"\n{indent(body, "    ")}\n'


def _navigation(pages: Mapping[str, Page]) -> Iterator[Mapping[str, object]]:
    for title in SECTIONS:
        entries: list[object] = []
        groups: dict[str, list[object]] = {}
        own = [page for page in pages.values() if page.section == title]
        for page in sorted(own, key=lambda page: page.path != START):
            group = _group(page)
            (groups.setdefault(group, []) if group else entries).append(page.place)
        entries += [{name: places} for name, places in groups.items()]
        yield {title: entries}


def _group(page: Page) -> str:
    """Return the group of a page within its section; "" if it is an entry of its own."""
    section = SECTIONS[page.section]
    if page.section in {"Reference", "Project"}:
        for folder, name in _GROUPS.items():
            if page.path.startswith(folder):
                return name
    if page.section == "Project":
        return "Repository"
    folder = next(folder for folder in section.folders if page.path.startswith(folder))
    group = PurePosixPath(page.path.removeprefix(folder)).parent.name
    return group.replace("-", " ").capitalize()


def _llms(pages: Mapping[str, Page]) -> Iterator[str]:
    """Return the index for language models (llmstxt.org), with a summary of each page."""
    yield "# Valetkey\n"
    yield f"> {pages[START].summary}\n"
    for title in SECTIONS:
        yield f"## {title}\n"
        for page in pages.values():
            if page.section == title:
                yield f"- [{page.title}]({page.place}){': ' if page.summary else ''}{page.summary}"
        yield ""


def _zensical(folder: Path) -> None:
    command = (sys.executable, "-m", "zensical", "build", "--strict")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr))


def _search(site: Path, pages: Mapping[str, Page]) -> None:
    """Rank guides first: replace the worker, and give its index keywords and weights."""
    code = (ROOT / "docs/search.js").read_bytes()
    name = f"assets/javascripts/workers/search.{hashlib.sha256(code).hexdigest()[:8]}.min.js"
    shutil.rmtree(site / "assets/javascripts/workers")
    _write(site / name, code)
    for html in site.rglob("*.html"):
        html.write_text(_SEARCH.sub(name, html.read_text(encoding="utf-8")), encoding="utf-8")
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    places = {page.place.removesuffix("md") + "html": page for page in pages.values()}
    for item in index["items"]:
        page = places[item["location"].partition("#")[0]]
        item["weight"] = SECTIONS[page.section].weight
        item["keywords"] = page.keywords
    _write(site / "search.json", json.dumps(index, separators=(",", ":")).encode())


def _without_inline_scripts(site: Path, html: Path) -> None:
    """Move inline scripts to files, so that the policy can forbid inline scripts."""

    def outside(script: re.Match[str]) -> str:
        code = script[1].encode()
        name = f"assets/javascripts/{hashlib.sha256(code).hexdigest()[:8]}.min.js"
        _write(site / name, code)
        return f'<script src="{relpath(site / name, html.parent)}"></script>'

    html.write_text(_SCRIPT.sub(outside, html.read_text(encoding="utf-8")), encoding="utf-8")


def _pack(site: Path, out: Path) -> int:
    """Pack the folder, the same bytes for the same content."""
    out.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(out, "w") as archive:
        for path in sorted(path for path in site.rglob("*") if path.is_file()):
            entry = zipfile.ZipInfo(path.relative_to(site).as_posix(), _LONG_AGO)
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)
    return out.stat().st_size


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def main(arguments: list[str]) -> None:
    """Build the archive of this checkout, or of the copy of it in the folder that is named."""
    build(Path(arguments[0], ARCHIVE.relative_to(ROOT)) if arguments else ARCHIVE)


if __name__ == "__main__":
    main(sys.argv[1:])
