"""Every link leads somewhere."""

from pathlib import PurePosixPath
from posixpath import normpath

from tests.architecture.tree import tracked
from tests.documents.pages import anchors, links, pages

OUTSIDE = ("https://",)


def test_every_link_resolves() -> None:
    broken = [
        f"{page}: {target}" for page in pages() for target in links(page) if dead(page, target)
    ]
    assert not broken


def dead(page: str, target: str) -> bool:
    """Whether a link leads nowhere; the outside world is not asked."""
    if target.startswith(OUTSIDE):
        return False
    path, _, fragment = target.partition("#")
    file = normpath(str(PurePosixPath(page).parent / path)) if path else page
    if file not in tracked() and not any(name.startswith(f"{file}/") for name in tracked()):
        return True
    return bool(fragment) and fragment not in anchors(file)


def test_every_page_can_be_reached_from_the_first() -> None:
    reached: set[str] = set()
    waiting = ["README.md"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        waiting += [
            normpath(str(PurePosixPath(page).parent / target.partition("#")[0]))
            for target in links(page)
            if target.partition("#")[0].endswith(".md") and not target.startswith(OUTSIDE)
        ]
    assert set(pages()) == reached


def test_a_dead_link_is_seen() -> None:
    assert dead("README.md", "docs/nowhere.md")
    assert dead("README.md", "CONTRIBUTING.md#nothing")
    assert not dead("docs/decisions/0001-transactions-are-functions.md", "../../README.md#commands")
