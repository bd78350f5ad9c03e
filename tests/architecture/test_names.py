"""Names say the thing, not the mechanism."""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.tree import sources, tracked

BANNED = frozenset(
    {"base", "common", "handler", "helper", "manager", "misc", "service", "util"}
    | {"handlers", "helpers", "managers", "services", "utils"}
)
OURS = ("src/", "tests/", "bench/", "examples/", "docs/", "deploy/")


def words(name: str) -> Iterator[str]:
    """The words of a file's or a class's name, in lower case."""
    for part in re.split(r"[^A-Za-z]+", name):
        yield from (word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", part))


def test_no_file_or_folder_is_named_after_a_mechanism() -> None:
    vague = [
        path
        for path in tracked()
        if path.startswith(OURS)
        for part in PurePosixPath(path).parts
        if BANNED & set(words(part.split(".")[0]))
    ]
    assert not vague


def test_no_class_is_named_after_a_mechanism() -> None:
    vague = [
        f"{source.path}:{node.lineno} {node.name}"
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and BANNED & set(words(node.name))
    ]
    assert not vague


def test_the_words_of_a_name_are_found() -> None:
    assert list(words("test_TokenManager")) == ["test", "token", "manager"]
    assert list(words("base64url")) == ["base", "url"]
