"""A write on behalf of a user names that user; types require that it names an actor at all."""

import ast
from collections.abc import Iterator, Sequence

from tests.architecture.tree import Source, sources

SIGNED_IN = (
    *(f"authorization/site/{name}/" for name in ("account", "admin", "developer")),
    "authorization/endpoints/admin_api/",
)
OPENS = "cli/register/store.py"  # where the command line gets a store that acts for its operator


def unnamed_writes(source: Source) -> Iterator[int]:
    """Lines with a `write(` that leaves the actor to its events."""
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "write"
            and any(ast.unparse(keyword.value) == "USUAL_ACTOR" for keyword in node.keywords)
        ):
            yield node.lineno


def found(files: Sequence[Source]) -> list[str]:
    return [f"{source.path}:{line}" for source in files for line in unnamed_writes(source)]


def test_pages_and_calls_of_signed_in_users_name_the_actor() -> None:
    files = [source for source in sources() if source.inside.startswith(SIGNED_IN)]
    assert len(files) > 30
    assert found(files) == []


def test_console_writes_only_through_operations() -> None:
    console = ("authorization/site/admin/", "authorization/webhooks/pages")
    writing = {
        source.inside
        for source in sources()
        if source.inside.startswith(console) and ".write(" in source.text
    }
    # Sign-in to the console, the link by which the first owner gets the role, and the names under
    # which a user finds filters again: they concern nobody else.
    allowed = ("administrator", "saved_filters", "users/owner")
    assert writing == {f"{console[0]}{name}.py" for name in allowed}


def test_the_command_line_has_one_store_and_it_acts_for_the_operator() -> None:
    files = [source for source in sources() if source.inside.startswith("cli/")]
    opening = [
        source.inside
        for source in files
        if "build_foundation(" in source.text or "Store(" in source.text.replace("SecretStore(", "")
    ]
    assert opening == [OPENS]


def test_write_by_the_usual_actor_is_detected() -> None:
    text = "async def f(site):\n    await site.store.write(work, done_by=USUAL_ACTOR)\n"
    assert found([Source("x.py", text)]) == ["x.py:2"]
