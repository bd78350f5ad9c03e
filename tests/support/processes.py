"""What Linux tells of other processes, which may end at any moment: proc(5).

Reading a file of a process that ends meanwhile raises FileNotFoundError or ProcessLookupError; here
such a process has no children, no name and no threads.
"""

from contextlib import suppress
from pathlib import Path

_WORKER = "valetkey-worker"


def children(pid: int) -> list[int]:
    """Return the processes that any thread of this one has started and that it has not reaped."""
    return [int(child) for listed in _read_all(pid, "task/*/children") for child in listed.split()]


def descendants(pid: int) -> list[int]:
    """Return the children, each followed by its own."""
    return [descendant for child in children(pid) for descendant in (child, *descendants(child))]


def workers(pid: int) -> list[int]:
    """Return those of the children that answer; the others are what they are forked from."""
    return [child for child in children(pid) if name(child) == _WORKER]


def name(pid: int) -> str:
    """Return the name of a process, or nothing."""
    return "".join(_read_all(pid, "comm")).strip()


def state(pid: int) -> str:
    """Return its state: `T` is stopped, `Z` is ended and not yet reaped, nothing is gone."""
    fields = "".join(_read_all(pid, "stat")).rpartition(")")[2].split()
    return fields[0] if fields else ""


def is_alive(pid: int) -> bool:
    """Return whether a process runs or could run again."""
    return state(pid) not in {"", "Z"}


def is_dying(pid: int) -> bool:
    """Return whether a killed process may still have open connections: its threads share them."""
    return is_alive(pid) or len(_read_all(pid, "task/*/comm")) > 1


def _read_all(pid: int, pattern: str) -> list[str]:
    texts = []
    with suppress(OSError):
        for path in Path(f"/proc/{pid}").glob(pattern):
            with suppress(OSError):
                texts.append(path.read_text())
    return texts
