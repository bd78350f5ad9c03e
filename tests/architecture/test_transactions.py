"""A transaction is a plain function: it cannot wait for anything while it holds a lock."""

import ast
from collections.abc import Iterator, Mapping

from tests.architecture.tree import Source, sources

OF_FEATURES = ("/model.py", "/storage.py", "/rules.py")
PLAIN = ("kernel/", "authorization/model/", "authorization/protocol/", "authorization/storage/")
# Where the stores meet the engine.
DOORS = {"authorization/storage/transaction.py"}
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
ENGINE_VERBS = {"read", "scan", "write", "change_schema"}


def asynchronous_works(source: Source) -> list[str]:
    """Functions that may wait, given to an engine as a transaction."""
    return [f"{source.path}:{line} {name}" for line, name in _within(source.tree, {})]


def _within(scope: ast.AST, outside: Mapping[str, bool]) -> Iterator[tuple[int, str]]:
    """The same for one scope; `outside` says of each function seen from here whether it waits."""
    inside = list(_of_this_scope(scope))
    waits = {
        **outside,
        **{n.name: isinstance(n, ast.AsyncFunctionDef) for n in inside if isinstance(n, FUNCTION)},
    }
    for node in inside:
        if isinstance(node, FUNCTION):
            yield from _within(node, waits)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ENGINE_VERBS
        ):
            for argument in node.args:
                if isinstance(argument, ast.Name) and waits.get(argument.id):
                    yield node.lineno, argument.id


def _of_this_scope(scope: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, FUNCTION):
            yield from _of_this_scope(child)


def test_transaction_functions_are_never_async() -> None:
    assert not [where for source in sources() for where in asynchronous_works(source)]


def test_rules_nouns_and_stores_have_no_async_functions() -> None:
    assert not [
        f"{source.path}:{node.lineno} {node.name}"
        for source in sources()
        if (source.inside.startswith(PLAIN) or source.inside.endswith(OF_FEATURES))
        and source.inside not in DOORS
        for node in ast.walk(source.tree)
        if isinstance(node, ast.AsyncFunctionDef)
    ]


def test_async_transaction_function_is_detected() -> None:
    code = "async def work(db): ...\nasync def f(): await engine.write(work)"
    assert asynchronous_works(Source("x.py", code)) == ["x.py:2 work"]


def test_synchronous_work_named_like_its_async_function_is_accepted() -> None:
    code = (
        "async def f():\n"
        "    async def work(opened):\n"
        "        def work(tx): ...\n"
        "        await opened.store.write(work)\n"
    )
    assert not asynchronous_works(Source("x.py", code))
