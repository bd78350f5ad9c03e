"""Names say what a class is, what a variable holds, and which rule a test checks."""

import ast
import re
from collections import defaultdict

from tests.architecture.tree import sources
from valetkey.config.features import NAMES

_APART = ("sdk/", "testing/", "resource/", *(f"authorization/{name}/" for name in NAMES))
"""Beside the core: what has a vocabulary of its own."""


def test_public_classes_of_the_core_have_unique_names() -> None:
    modules = defaultdict[str, list[str]](list)
    for source in sources():
        if not source.inside.startswith(_APART):
            for node in source.tree.body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    modules[node.name].append(source.inside)
    assert len(modules) > 1_000
    assert not {name: files for name, files in modules.items() if len(files) > 1}


_VAGUE = {"asked", "each", "found", "given", "known", "place", "said", "told", "wanted"}


def test_variable_names_are_not_vague() -> None:
    vague = [
        f"{source.inside}:{node.lineno} {name}"
        for source in sources()
        for function in ast.walk(source.tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Name | ast.arg)
        if (name := node.id if isinstance(node, ast.Name) else node.arg) in _VAGUE
    ]
    assert not vague


_RIDDLE = re.compile(
    r"test_([a-z]{2}_\d+_)?what_|_(told|nobody|somebody|everybody|whoever|whatever|things?)(_|$)"
)


def test_tests_are_named_for_their_rule() -> None:
    names = [
        node.name
        for source in sources("tests/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(names) > 4_000
    assert not [name for name in names if _RIDDLE.search(name)]
