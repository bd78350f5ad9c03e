"""Small files, small folders: what grows past the limit is two ideas."""

from collections import defaultdict
from pathlib import PurePosixPath

from tests.architecture.tree import PACKAGE, texts, tracked

MOST_LINES = 400
MOST_ENTRIES = 25
MOST_FOLDERS = 4
CROWDED = {
    "tests",  # one folder for each of src, and one for each kind of test
    "src/valetkey/authorization/storage/schema",  # one file for each step, never taken back
    "tests/cli/commands",
    "docs/decisions",  # one page for each, never taken back
}
LONG = {
    "CHANGELOG.md",  # every release, never taken back
    "src/valetkey/authorization/actions/developer/presets.toml",  # one entry for each client
    "src/valetkey/authorization/site/errors/errors.toml",  # one entry for each error code
}
GENERATED = "docs/reference/"
PICTURES = "docs/screenshots"
WRITTEN_BY_HAND = (".py", ".html", ".css", ".js", ".mjs", ".sql", ".md", ".toml")


def test_no_file_is_longer_than_four_hundred_lines() -> None:
    long = {
        path: len(text.splitlines())
        for path, text in texts()
        if path.endswith(WRITTEN_BY_HAND)
        and not path.startswith(GENERATED)
        and path not in LONG
        and len(text.splitlines()) > MOST_LINES
    }
    assert not long


def test_no_folder_has_more_than_25_entries() -> None:
    entries: defaultdict[str, set[str]] = defaultdict(set)
    for path in tracked():
        parts = PurePosixPath(path).parts
        for depth in range(1, len(parts)):
            entries["/".join(parts[:depth])].add(parts[depth])
    crowded = {
        folder: len(names - {"__init__.py"})
        for folder, names in entries.items()
        if folder not in CROWDED
        and not folder.startswith(PICTURES)
        and len(names - {"__init__.py"}) > MOST_ENTRIES
    }
    assert not crowded


def test_no_file_is_deeper_than_four_folders_in_the_package() -> None:
    deep = {
        path
        for path in tracked()
        if path.startswith(PACKAGE) and path.removeprefix(PACKAGE).count("/") > MOST_FOLDERS
    }
    assert not deep
