"""The repository as these tests read it: what git tracks, and what Python makes of it."""

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "src/valetkey/"


@dataclass(frozen=True)
class Source:
    """A Python file: its path from the root, its text, its syntax."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax, parsed once."""
        return ast.parse(self.text, self.path)

    @property
    def inside(self) -> str:
        """The path below `src/valetkey/`, or the whole path for files elsewhere."""
        return self.path.removeprefix(PACKAGE)


@cache
def tracked() -> tuple[str, ...]:
    """Every file git tracks and the work tree has, from the root, with forward slashes."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return tuple(path for path in listed.stdout.split("\0") if path and (ROOT / path).is_file())


@cache
def sources(under: str = PACKAGE) -> tuple[Source, ...]:
    """The Python files below a folder."""
    return tuple(
        Source(path, text)
        for path in tracked()
        if path.startswith(under) and path.endswith(".py")
        for text in [(ROOT / path).read_text()]
    )


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Every tracked file that is text, with its content."""
    return tuple(_readable())


def _readable() -> Iterator[tuple[str, str]]:
    for path in tracked():
        try:
            yield path, (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module a file imports, wherever in the file, with the line."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module
