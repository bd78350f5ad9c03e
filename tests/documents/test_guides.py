"""Guides begin with what they are about, and show the pages that they describe."""

import re

from docs.length import total, words
from tests.documents.pages import pages, text

_PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)]+)\)")
_LONGEST, _LONGEST_IN_ALL = 600, 90_000
_ALERTS = "docs/how-to/operate/alerts/"


def _guides() -> list[str]:
    folders = ("docs/how-to/", "docs/tutorials/")
    return [page for page in pages() if page.startswith(folders) and not page.startswith(_ALERTS)]


def test_guide_begins_with_a_sentence() -> None:
    assert len(_guides()) > 40
    begun = re.compile(r"^# .+\n\n(?!At the end of this page)[A-Z`*\[]", re.MULTILINE)
    assert not [page for page in _guides() if not begun.search(text(page))]


def test_guides_stay_within_their_word_limit() -> None:
    long = {page: words(text(page)) for page in _guides() if page.startswith("docs/how-to/")}
    assert not {page: count for page, count in long.items() if count > _LONGEST}
    assert total("tutorials", "how-to", "reference") <= _LONGEST_IN_ALL


def test_guides_show_pages_with_a_description() -> None:
    shown = {page: _PICTURE.findall(text(page)) for page in _guides()}
    pictures = [(page, alt) for page, images in shown.items() for alt, _ in images]
    assert len({page for page, _ in pictures}) >= 12
    assert not [(page, alt) for page, alt in pictures if len(alt.split()) < 4]
