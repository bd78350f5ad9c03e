"""Run the tests of a subject: `python -m tests.subject webhooks`, or `make test webhooks`.

A test belongs to a subject if its path or its name has the word, or if its file imports something
of `valetkey` whose dotted name has it: itself, or through one helper that does not serve all
subjects. Of a feature, only what is in its package counts, for `claims` are in many names. The
plural also finds the singular. Of several words a test must have each.
"""

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from valetkey.config.features import NAMES

ROOT = Path(__file__).resolve().parents[1]
_SHARED = (
    "tests/support/",
    "tests/conftest.py",
    "tests/authorization/pages/",
    "tests/stories/people/",
)
"""Where helpers serve all subjects; the last two show every page, which takes minutes."""

_SHORT = 4
"""Letters of a plural that is found as it is."""

_FEW = 3
"""Files for which a second worker is not worth its start."""


def select(root: Path, words: Sequence[str]) -> list[str]:
    """Return the tests that belong to all subjects: a file, or the ids of some of its tests."""
    texts = {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted((root / "tests").rglob("*.py"))
        if "node_modules" not in path.parts
    }
    stems = [_stem(word) for word in words]
    importing = [_importing(texts, stem) for stem in stems]
    selected: list[str] = []
    for path, text in texts.items():
        if not _is_test(path):
            continue
        missing = [
            stem
            for stem, files in zip(stems, importing, strict=True)
            if stem not in path.casefold() and path not in files
        ]
        if not missing:
            selected.append(path)
        elif all(stem in text.casefold() for stem in missing):
            names = _tests(text)
            named = (name for name in names if all(stem in name.casefold() for stem in missing))
            selected += [f"{path}::{name}" for name in named]
    return selected


def _stem(word: str) -> str:
    # Of `apis`, less would be in the names of most subjects.
    stem = word.casefold().replace("-", "_")
    return stem.removesuffix("s") if len(stem) > _SHORT else stem


def _importing(texts: dict[str, str], stem: str) -> set[str]:
    """Return the files that import something named so, or a helper that does."""
    files = {
        path
        for path, text in texts.items()
        if (_is_test(path) or not path.startswith(_SHARED))
        and stem in text.casefold()
        and any(_is_about(name, stem) for name in _imports(text))
    }
    helpers = {
        path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        for path in texts
        if not _is_test(path)
        and (path in files or (stem in path.casefold() and not path.startswith(_SHARED)))
    }
    return files | {
        path
        for path, text in texts.items()
        if any(helper in text for helper in helpers)
        and any(
            f"{name}.".startswith(f"{helper}.") for name in _imports(text) for helper in helpers
        )
    }


def _is_test(path: str) -> bool:
    return path.rpartition("/")[2].startswith("test_")


def _is_about(imported: str, stem: str) -> bool:
    """Return whether a module, or what is in one, belongs to the subject."""
    feature = next((name for name in NAMES if _stem(name) == stem), None)
    if feature is not None:
        return f"{imported}.".startswith(f"valetkey.authorization.{feature}.")
    return imported.startswith("valetkey.") and stem in imported.casefold()


def _imports(text: str) -> Iterator[str]:
    """Return the dotted names that a file imports, of modules and of what is in them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _tests(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name.startswith(
            ("test_", "Test")
        ):
            yield node.name


def main(words: Sequence[str]) -> int:
    """Run the tests, on two workers if there are many; 5 if there are none."""
    selected = select(ROOT, words)
    files = {test.partition("::")[0] for test in selected}
    if not selected:
        sys.stderr.write(
            f"No test has {' and '.join(words)} in its path, its name or its imports.\n"
        )
        return pytest.ExitCode.NO_TESTS_COLLECTED
    several = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
    return pytest.main([*(several if len(files) > _FEW else ()), *selected])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
