"""Names: a public class of the core has one of its own, a variable the noun of what it holds."""

import ast
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
