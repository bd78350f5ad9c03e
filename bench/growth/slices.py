"""A part of a core for one process, as the kernel's control groups give it. It takes root."""

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

_PERIOD = 10_000
_FIRST, _SECOND = Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")


def slices_are_there() -> bool:
    """Whether this machine lets us make any, in the first or the second version of the groups."""
    return (_FIRST / "cpu.cfs_quota_us").exists() or (_SECOND / "cpu.max").exists()


@contextmanager
def sliced(pids: Sequence[int], share: float) -> Generator[None]:
    """Let each of these processes have so much of a core and no more."""
    made = [_slice(pid, share) for pid in pids]
    try:
        yield
    finally:
        for folder in made:
            for pid in (folder / "cgroup.procs").read_text().split():
                (folder.parent / "cgroup.procs").write_text(pid)
            folder.rmdir()


def _slice(pid: int, share: float) -> Path:
    quota = int(share * _PERIOD)
    is_first = (_FIRST / "cpu.cfs_quota_us").exists()
    folder = (_FIRST if is_first else _SECOND) / f"valetkey-bench-{pid}"
    folder.mkdir()
    try:
        if is_first:
            (folder / "cpu.cfs_period_us").write_text(str(_PERIOD))
            (folder / "cpu.cfs_quota_us").write_text(str(quota))
        else:
            (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
        (folder / "cgroup.procs").write_text(str(pid))
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return folder
