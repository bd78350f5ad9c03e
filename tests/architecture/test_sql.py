"""SQL is code: written out, portable, never put together from strings."""

import ast
import re
from collections.abc import Iterator

from tests.architecture.tree import Source, sources, texts
from valetkey.database.engine import Lock

STATEMENT = re.compile(
    r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|PRAGMA|VACUUM|SAVEPOINT|RELEASE"
    r"|ROLLBACK|BEGIN|COMMIT|LISTEN|NOTIFY)\s[\sA-Za-z_*(]"
)
CLAUSE = re.compile(r"\b(WHERE|ORDER BY|VALUES|RETURNING|ON CONFLICT)\b|^\s*(FROM|SET|AND|OR) ")
ONE_ENGINE_ONLY = re.compile(
    r"\bnow\(|CURRENT_TIMESTAMP|\bdatetime\(|::|\bCAST\(|\bFOR UPDATE\b|\bAUTOINCREMENT\b"
    r"|\bSERIAL\b|\bINSERT OR\b|\bJSONB?\b|\bBOOLEAN\b|\bTIMESTAMP\b",
    re.IGNORECASE,
)


def literals(node: ast.AST) -> Iterator[str]:
    """Every piece of text below a node."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            yield inner.value


def is_sql(text: str) -> bool:
    """Whether a piece of text is a statement or a part of one."""
    return bool(STATEMENT.match(text) or CLAUSE.search(text))


def put_together(node: ast.AST) -> bool:
    """Whether this expression makes one text out of several at run time."""
    match node:
        case ast.JoinedStr(values=values):
            return any(isinstance(value, ast.FormattedValue) for value in values)
        case ast.BinOp(op=ast.Add() | ast.Mod()):
            return True
        case ast.Call(func=ast.Attribute(attr="format" | "join" | "replace")):
            return True
        case _:
            return False


def offences(source: Source) -> list[str]:
    """Where a file builds SQL."""
    return [
        f"{source.path}:{getattr(node, 'lineno', 0)}"
        for node in ast.walk(source.tree)
        if put_together(node) and any(is_sql(text) for text in literals(node))
    ]


def statements() -> Iterator[tuple[str, str]]:
    """Every piece of SQL of the two servers, with where it stands."""
    for path, text in texts():
        if path.endswith(".sql"):
            yield path, text
    for source in sources():
        if source.inside.startswith(("authorization/", "resource/")):
            yield from (
                (source.path, text)
                for text in (*literals(source.tree), *computed(source.tree))
                if STATEMENT.match(text)
            )


def computed(tree: ast.AST) -> Iterator[str]:
    """The expressions of columns that are computed, as if they were selected."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name("Column"), keywords=keywords):
                yield from (
                    f"SELECT ({text})"
                    for keyword in keywords
                    if keyword.arg == "sql"
                    for text in literals(keyword.value)
                )
            case _:
                pass


def counted_columns(source: Source) -> list[str]:
    """Where a file takes a column of a row by its number; a row of one or two columns may be."""
    return [
        f"{source.path}:{node.lineno}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Subscript)
        and ast.unparse(node.value).rpartition(".")[2].removeprefix("_") in {"row", "rows[-1]"}
        and not (isinstance(node.slice, ast.Constant) and node.slice.value in {0, 1, "0", "1"})
    ]


def test_columns_are_not_read_by_number() -> None:
    assert not [
        where
        for source in sources()
        if source.inside.startswith(("authorization/", "resource/"))
        for where in counted_columns(source)
    ]


def test_column_read_by_number_is_detected() -> None:
    for line in ("row[2]", "row[3:]", "row[number]", "rows[-1][4]"):
        assert counted_columns(Source("x.py", line)) == ["x.py:1"]
    assert not counted_columns(Source("x.py", "row[0], row[1]"))


def test_sql_is_not_built_from_strings() -> None:
    assert not [
        where
        for source in sources()
        # A copy reads whatever tables a database's own catalogue names.
        if not source.inside.startswith("database/copying")
        for where in offences(source)
    ]


def test_sql_is_portable_between_sqlite_and_postgresql() -> None:
    assert not [
        f"{path}: {match.group()}"
        for path, text in statements()
        if (match := ONE_ENGINE_ONLY.search(re.sub(r"--.*", "", text)))
    ]


def test_numbers_of_locks_are_in_one_list() -> None:
    files = [
        source.inside
        for source in sources()
        if not source.inside.startswith("testing/")
        for text in literals(source.tree)
        if re.match(r"SELECT -[0-9]+$|SELECT pg_\w*advisory_\w+\([0-9]+, -?[0-9]", text)
    ]
    assert files == ["database/engine.py"] * len(Lock)


def test_sql_built_from_strings_is_detected() -> None:
    code = (
        'f"SELECT a FROM {table}"',
        '"SELECT a FROM t WHERE b = " + b',
        '"SELECT a FROM %s" % table',
        '"DELETE FROM {}".format(table)',
    )
    for line in code:
        assert offences(Source("x.py", line)) == ["x.py:1"]
    innocent = 'f"Select a {colour}" + " or leave"'
    assert not offences(Source("x.py", innocent))
