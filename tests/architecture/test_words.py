"""Public names: plain English and the field's words, or a house word that is explained."""

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.tree import ROOT, sources

KNOWN = Path(__file__).with_name("words.txt")
"""Words that need no explanation: the field's, and plain English."""

_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]+|[A-Z]+")
_HOUSE = re.compile(r"^\| \*(\w+)\* \|", re.MULTILINE)
_RAISES = re.compile(r"\bRaises `?([A-Z]\w+)")
_OF_LIBRARIES = {"UndefinedError"}


def _words() -> dict[str, str]:
    """Every word in a public name, with a name that has it."""
    return {
        word.lower(): name
        for source in sources()
        for name in (*source.inside.removesuffix(".py").split("/"), *_names(source.tree))
        if not name.startswith("_")
        for word in (_PART.findall(name) if name[0].isupper() else name.strip("_").split("_"))
    }


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the public classes, functions and methods; not functions inside functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            if not child.name.startswith("_"):
                yield child.name
                yield from _names(child)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child.name
        elif isinstance(child, ast.If | ast.Try):
            yield from _names(child)


def test_every_word_of_a_public_name_is_known_or_explained() -> None:
    house = set(_HOUSE.findall((ROOT / "docs/explanation/words.md").read_text()))
    known_words = set(KNOWN.read_text().split())
    used = _words()
    assert house == {"fingerprint", "keyring", "refusal", "voucher"}
    assert not {used[word] for word in used.keys() - known_words - house}, (
        "use the field's word, or add it to words.txt"
    )
    assert not known_words & house
    assert not known_words - used.keys(), "no name has this word any more"


def test_docstrings_name_exceptions_that_exist() -> None:
    defined = {
        node.name
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    }
    named = {name: source.path for source in sources() for name in _RAISES.findall(source.text)}
    assert named
    assert not {
        named[name]: name for name in named.keys() - defined - {*dir(builtins), *_OF_LIBRARIES}
    }
