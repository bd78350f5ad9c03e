"""What is nowhere here: prints, Any, loose ends, tests left out, names of machines."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatch

from tests.architecture.tree import Source, imports, sources, texts

MAY_SAY_ANY = {
    "authorization/operations/operation.py": "changes are built by the names of declared fields",
    "authorization/layout/theme_check.py": "what the fields of pages are typed as",
    "authorization/model/client.py": "a field's value is what its annotation says",
    "authorization/operations/client_records.py": "types of fields are looked at as values",
    "authorization/protocol/register/client_metadata.py": "the same, where values come together",
    "authorization/protocol/register/self_registration.py": "the same, where JSON comes in",
    "authorization/model/api.py": "values of an API, by the names of their fields",
    "authorization/apis/operations.py": "types made of declared fields",
    "authorization/storage/apis.py": "columns made of declared fields",
    "authorization/apis/applied.py": "values of the file, by the names of their fields",
    "cli/operations/inputs.py": "click takes arguments of any type, by the type of a field",
    "cli/serving/parent.py": "a plan that its own process wrote, read without a library",
    "cli/serving/trace_export.py": "messages of protobuf have no types",
    "config/catalogue.py": "type hints are looked at as values, stored ones are checked by rules",
    "config/load.py": "TOML comes in untyped and leaves as settings",
    "database/*.py": "rows are what the driver gives, and a work's answer passes through unseen",
    "kernel/shapes.py": "types are looked at as values",
    "sdk/adapters/asgi.py": "what an ASGI message is, as Starlette spells it",
    "authorization/providers/*.py": "values of declared fields, by their names",
    "authorization/webhooks/model.py": "types of fields are looked at as values",
    "authorization/site/admin/server/api.py": "types of fields are looked at as values",
    "testing/engine_story.py": "how typing spells a coroutine",
}

SECRET_NAME = re.compile(
    r"(^|_)(fingerprint|print|secret|password|mac|signature|verifier|challenge)_?$"
)
MAKE_SECRETS = {"of": "fingerprint", "reveal": "secret", "challenge_of": "challenge"}
MAY_COMPARE = {
    "authorization/authentication/password.py": "hashes of a public list",
    "database/migrate.py": "hashes of migrations, which are public",
    "testing/storage_conformance.py": "made-up fingerprints of a test",
}

LOOSE_ENDS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
LEFT_OUT = {"skip", "skipif", "xfail", "importorskip"}
# In pieces, so that this file may be tracked.
HOSTS = tuple(
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("npmjs", "com"),
        ("crates", "io"),
        ("deb", "debian", "org"),
        ("maven", "org"),
        ("proxy", "golang", "org"),
        ("sum", "golang", "org"),
    )
)
MACHINE = re.compile(r"(?<![\w.}])/(work/main|work/shared|root/|opt/wheels|tmp/bash)")


def prints(source: Source) -> list[str]:
    """Where a file calls `print`."""
    return [
        f"{source.path}:{node.lineno}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]


def says_any(source: Source) -> bool:
    """Whether a file uses `typing.Any`."""
    return any(
        isinstance(node, ast.ImportFrom)
        and node.module in {"typing", "typing_extensions"}
        and any(alias.name == "Any" for alias in node.names)
        for node in ast.walk(source.tree)
    ) or any(
        isinstance(node, ast.Attribute) and node.attr == "Any" for node in ast.walk(source.tree)
    )


def test_only_the_command_line_prints() -> None:
    assert not [
        where
        for source in sources()
        if not source.inside.startswith("cli/")
        for where in prints(source)
    ]


def test_any_stays_in_the_files_named_here() -> None:
    saying = {source.inside for source in sources() if says_any(source)}
    named = {file for file in saying for allowed in MAY_SAY_ANY if fnmatch(file, allowed)}
    assert not saying - named


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return MAKE_SECRETS.get(_name(function), "")
        case _:
            return ""


def _compared(tree: ast.AST) -> list[int]:
    """The lines that compare a secret or a fingerprint with == or !=."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
        and any(SECRET_NAME.search(_name(side)) for side in (node.left, *node.comparators))
        # Its length and its absence are no secret.
        and not any(isinstance(side, ast.Constant) for side in (node.left, *node.comparators))
    ]


def test_secrets_and_fingerprints_are_compared_in_constant_time() -> None:
    comparisons = {
        f"{source.path}:{line}"
        for source in sources()
        if source.path.startswith("src/") and source.inside not in MAY_COMPARE
        for line in _compared(source.tree)
    }
    assert not comparisons, "use valetkey.kernel.secret.same"


def test_every_form_of_secret_comparison_is_detected() -> None:
    for text in (
        "print_ == grant.refresh_print",
        "a.fingerprint != b",
        "keys.of('code', text) == stored",
        "given == secret.reveal()",
        "x == client_secret",
        "challenge_of(verifier) == wanted",
    ):
        assert _compared(ast.parse(text)), text
    for text in ("same(print_, other.fingerprint)", "secret == ''", "fingerprint is None"):
        assert not _compared(ast.parse(text)), text


def test_no_todo_or_fixme_is_left() -> None:
    assert not [
        f"{path}: {match.group()}"
        for path, text in texts()
        if not path.endswith((".lock", "-lock.json"))
        for match in LOOSE_ENDS.finditer(text)
    ]


def test_no_test_is_skipped() -> None:
    assert not [
        f"{source.path}:{node.lineno} {node.attr}"
        for source in sources("tests/")
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Attribute) and node.attr in LEFT_OUT and _of_pytest(node)
    ]


def _of_pytest(node: ast.Attribute) -> bool:
    owner = ast.unparse(node.value)
    return owner in {"pytest", "pytest.mark", "unittest"}


def test_no_file_names_a_registry_or_a_machine() -> None:
    assert not [
        f"{path}: {host}" for path, text in texts() for host in HOSTS if host in text.lower()
    ]
    assert not [
        f"{path}: {match.group()}" for path, text in texts() for match in MACHINE.finditer(text)
    ]


def test_package_does_not_import_tests_bench_or_examples() -> None:
    assert not [
        f"{source.path}:{line} imports {module}"
        for source in sources()
        for line, module in imports(source)
        if module.split(".")[0] in {"tests", "bench", "examples", "src"}
    ]


def test_no_module_assigns_a_constant_twice() -> None:
    """Of two, as after two modules were joined, the first has the value of the second."""
    assert not [
        f"{source.path}: {name}"
        for source in sources()
        for name, count in Counter(_assigned(source.tree)).items()
        if count > 1
    ]


def _assigned(module: ast.Module) -> Iterator[str]:
    for node in module.body:
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
