"""A transaction is a plain function: it cannot wait for anything while it holds a lock."""

import ast

from tests.architecture.tree import Source, sources

PLAIN = ("kernel/", "authorization/model/", "authorization/protocol/", "authorization/storage/")
DOOR = "authorization/storage/transaction.py"  # where the stores meet the engine
ENGINE_VERBS = {"read", "scan", "write", "change_schema"}


def asynchronous_works(source: Source) -> list[str]:
    """Functions that may wait, given to an engine as a transaction."""
    waiting = {
        node.name for node in ast.walk(source.tree) if isinstance(node, ast.AsyncFunctionDef)
    }
    return [
        f"{source.path}:{node.lineno} {argument.id}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ENGINE_VERBS
        for argument in node.args
        if isinstance(argument, ast.Name) and argument.id in waiting
    ]


def test_no_work_awaits() -> None:
    assert not [where for source in sources() for where in asynchronous_works(source)]


def test_rules_nouns_and_stores_never_wait() -> None:
    assert not [
        f"{source.path}:{node.lineno} {node.name}"
        for source in sources()
        if source.inside.startswith(PLAIN) and source.inside != DOOR
        for node in ast.walk(source.tree)
        if isinstance(node, ast.AsyncFunctionDef)
    ]


def test_a_work_that_awaits_is_seen() -> None:
    code = "async def work(db): ...\nasync def f(): await engine.write(work)"
    assert asynchronous_works(Source("x.py", code, ast.parse(code))) == ["x.py:2 work"]
