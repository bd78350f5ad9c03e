"""Cases of one test that share its server: a failure names its case."""

from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def case(*values: object) -> Generator[None]:
    """Add the values of the case to an exception raised inside.

    For requests that are refused and change nothing: a case must not depend on the ones before it.
    """
    try:
        yield
    except BaseException as problem:
        problem.add_note(f"case: {', '.join(map(repr, values))}")
        raise
