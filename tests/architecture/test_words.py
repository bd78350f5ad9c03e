"""Names of classes: plain English and the field's words, or a house word that is explained."""

import ast
import builtins
import re
from pathlib import Path

from tests.architecture.tree import ROOT, sources

KNOWN = Path(__file__).with_name("words.txt")
"""Words that need no explanation: the field's, and plain English."""

_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z][a-z0-9]+|[A-Z]+")
_HOUSE = re.compile(r"^\| \*(\w+)\* \|", re.MULTILINE)
_RAISES = re.compile(r"\bRaises `?([A-Z]\w+)")
_OF_LIBRARIES = {"UndefinedError"}


def _words() -> dict[str, str]:
    """Every word in the name of a public class, with a class that has it."""
    return {
        word.lower(): node.name
        for source in sources()
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        for word in _PART.findall(node.name)
    }


def test_every_word_of_a_class_name_is_known_or_explained() -> None:
    house = set(_HOUSE.findall((ROOT / "docs/explanation/words.md").read_text()))
    known = set(KNOWN.read_text().split())
    used = _words()
    assert house == {"fingerprint", "keyring", "refusal", "voucher"}
    assert not {used[word] for word in used.keys() - known - house}, (
        "use the field's word, or add it to words.txt"
    )
    assert not known & house
    assert not known - used.keys(), "no class has this word any more"


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
