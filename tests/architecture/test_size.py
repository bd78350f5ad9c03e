"""Files have one subject: one that grows past the limit has two."""

from tests.architecture.tree import PACKAGE, texts, tracked

MOST_LINES = 700
MOST_FOLDERS = 4
LONG = {
    "pyproject.toml",  # every import contract
    "CHANGELOG.md",  # every release, never taken back
    "src/valetkey/authorization/actions/developer/presets.toml",  # one entry for each client
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
