"""Files have one subject: one that grows past the limit has two."""

import re
from collections.abc import Iterator

from tests.architecture.tree import PACKAGE, ROOT, texts, tracked

MOST_LINES = 700
MOST_FOLDERS = 4
LONG = {
    "pyproject.toml",  # every import contract
    "CHANGELOG.md",  # every release, never taken back
    "src/valetkey/authorization/actions/presets.toml",  # one entry for each client
    "src/valetkey/authorization/site/errors/errors.toml",  # one entry for each error code
}
GENERATED = "docs/reference/"
WRITTEN_BY_HAND = (".py", ".html", ".css", ".js", ".mjs", ".sql", ".md", ".toml")


def test_no_file_is_longer_than_seven_hundred_lines() -> None:
    long = {
        path: len(text.splitlines())
        for path, text in texts()
        if path.endswith(WRITTEN_BY_HAND)
        and not path.startswith(GENERATED)
        and path not in LONG
        and len(text.splitlines()) > MOST_LINES
    }
    assert not long


def test_no_file_is_deeper_than_four_folders_in_the_package() -> None:
    deep = {
        path
        for path in tracked()
        if path.startswith(PACKAGE) and path.removeprefix(PACKAGE).count("/") > MOST_FOLDERS
    }
    assert not deep


_FOLDER = re.compile(r"^([│ ]*)[├└]── (\w+)/ +([\d.]+) ", re.MULTILINE)
_TOLERANCE = 0.25
"""A size that is written down stays true while code grows a little."""


def _sizes() -> Iterator[tuple[str, float]]:
    """The folders of the tree in ARCHITECTURE.md, with their thousands of lines."""
    above: list[str] = []
    for indent, name, size in _FOLDER.findall((ROOT / "ARCHITECTURE.md").read_text()):
        above[len(indent) // 4 :] = [name]
        yield f"{PACKAGE}{'/'.join(above)}/", float(size)


def test_sizes_in_the_map_of_the_architecture_are_true() -> None:
    lines = {path: text.count("\n") for path, text in texts() if path.endswith(".py")}
    actual = {
        folder: sum(count for path, count in lines.items() if path.startswith(folder)) / 1_000
        for folder, _ in _sizes()
    }
    assert actual
    wrong = {
        f"{folder}: {size}, not {actual[folder]:.1f}"
        for folder, size in _sizes()
        if abs(actual[folder] - size) > max(0.1, actual[folder] * _TOLERANCE)
    }
    assert not wrong
