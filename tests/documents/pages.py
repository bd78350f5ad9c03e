"""The documentation as these tests read it: pages, code blocks, links and headings."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.architecture.tree import ROOT, tracked

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r'\[[^\]]*\]\((?P<target>[^)\s]+)\)|<img src="(?P<image>[^"]+)"')
_KEPT_BY = re.compile(r"\[([^\]]+)\]\(\.\./\.\./(tests/[^)]+)\)")
_HEADING = re.compile(r"^#{1,6} (?P<text>.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: the page it stands on, its language, its text."""

    page: str
    language: str
    code: str

    @property
    def title(self) -> str:
        """The file it is meant for, named by a comment in its first line; "" if it is not."""
        first = self.code.partition("\n")[0]
        return first.removeprefix("# ") if first.startswith("# ") else ""


@cache
def pages() -> tuple[str, ...]:
    """Every Markdown page to be read, as a path from the root; the forms of `.github` are not."""
    return tuple(
        path for path in tracked() if path.endswith(".md") and not path.startswith(".github/")
    )


def text(page: str) -> str:
    """What a page says."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in _FENCE.finditer(text(page)):
        yield Block(page, match["language"], match["code"])


def links(page: str) -> Iterator[str]:
    """The targets of a page's links and the paths of its images, code left out."""
    prose = re.sub(r"`[^`\n]*`", "", _FENCE.sub("", text(page)))
    for match in _LINK.finditer(prose):
        yield match["target"] or match["image"]


@cache
def anchors(page: str) -> frozenset[str]:
    """The fragments that a page's headings answer to."""
    headings = (match["text"] for match in _HEADING.finditer(_FENCE.sub("", text(page))))
    return frozenset(
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    )


def kept_by(text: str) -> list[tuple[str, str]]:
    """The tests that a page names as keepers of its promises: sentence and file."""
    return _KEPT_BY.findall(text)


def missing_tests(page: str) -> list[str]:
    """The tests that the page at this path names and that do not exist."""
    return [
        f"{path}: {sentence}"
        for sentence, path in kept_by((ROOT / page).read_text())
        if f"def test_{sentence.replace(' ', '_')}(" not in (ROOT / path).read_text()
    ]
