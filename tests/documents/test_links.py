"""Every link leads somewhere."""

import re
from functools import cache
from pathlib import PurePosixPath
from posixpath import normpath

from tests.architecture.tree import ROOT, sources, tracked
from tests.documents.pages import anchors, blocks, links, pages, text

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
    if file not in _places():
        return True
    return bool(fragment) and fragment not in anchors(file)


@cache
def _places() -> frozenset[str]:
    """Every file and every folder."""
    folders = (str(folder) for name in tracked() for folder in PurePosixPath(name).parents)
    return frozenset((*tracked(), *folders))


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


def test_dead_link_is_detected() -> None:
    assert dead("README.md", "docs/nowhere.md")
    assert dead("README.md", "CONTRIBUTING.md#nothing")
    assert not dead("docs/decisions/0001-transactions-are-functions.md", "../../README.md#try-it")


def test_every_file_that_a_page_names_exists() -> None:
    missing = [
        f"{page}: {name}"
        for page in pages()
        if not page.startswith("docs/reference/")
        for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`", text(page))
        if not name.startswith("build/")  # made by make
        if not any((ROOT / folder / name).exists() for folder in ("", "src/valetkey"))
    ]
    assert not missing


def test_architecture_map_matches_the_source_tree() -> None:
    drawn = dict[str, set[str]]()
    parent = ""
    for line in next(blocks("ARCHITECTURE.md")).code.splitlines()[1:]:
        branch, fork, rest = line.partition("── ")
        if not fork:
            # A remark about the lines below it.
            continue
        names = re.match(r"(?:[a-z_]+/ +)+", rest)
        assert names is not None, line
        packages = names[0].replace("/", "").split()
        drawn.setdefault(parent if len(branch) > 1 else "", set()).update(packages)
        parent = parent if len(branch) > 1 else packages[0]
    for folder, names_drawn in drawn.items():
        below = (ROOT / "src/valetkey" / folder).iterdir()
        assert names_drawn == {path.name for path in below if (path / "__init__.py").is_file()}


def test_every_registry_of_the_architecture_exists() -> None:
    registries = re.findall(r"\| `([A-Za-z_]+)` \|$", text("ARCHITECTURE.md"), re.MULTILINE)
    source = "\n".join(module.text for module in sources())
    assert registries
    assert set(registries) <= set(re.findall(r"^(?:def )?([A-Za-z_]+)\b", source, re.MULTILINE))
