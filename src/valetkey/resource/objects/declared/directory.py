"""Read the directory of declared objects and collect the errors in its files."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from stat import S_IWOTH
from types import MappingProxyType

from valetkey.config.agreement import Problem
from valetkey.config.load import Mistakes
from valetkey.config.settings import Settings
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared import json_file, python_file
from valetkey.resource.objects.declared.invalid import InvalidDeclaration
from valetkey.resource.resource_object import ResourceObject

SETTING = "resource.objects"

MOST = 40
"""Maximum number of files: each adds two scopes, and a token can carry a hundred."""

_LARGEST = 1024 * 1024
_READERS: Mapping[str, Callable[[Path, str], ResourceObject]] = MappingProxyType(
    {".py": python_file.read, ".json": json_file.read}
)
_NOTES = frozenset((".md", ".txt"))


def objects_of(settings: Settings) -> tuple[ResourceObject, ...]:
    """Return Valetkey's objects and then those that the settings declare, by name.

    Raises Mistakes with every file that is invalid.
    """
    found, problems = read_directory(settings)
    if problems:
        raise Mistakes(f"the directory {SETTING}", problems)
    return (*OBJECTS, *found)


def read_directory(settings: Settings) -> tuple[Sequence[ResourceObject], Sequence[Problem]]:
    """Return the declared objects, and the errors of the invalid files."""
    if not settings.resource.objects:
        return (), ()
    folder = settings.source.directory / settings.resource.objects
    try:
        _nobody_else_writes(folder)
        files = sorted(file for file in folder.iterdir() if _counts(file))
    except (OSError, InvalidDeclaration) as reason:
        return (), (Problem(SETTING, f"{folder}: {_said(reason)}", "name a directory of objects"),)
    if len(files) > MOST:
        return (), (Problem(SETTING, f"{folder} has {len(files)} files", f"{MOST} are allowed"),)
    found: dict[str, ResourceObject] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            each = _read(file)
            if each.name in found:
                raise InvalidDeclaration(
                    f"another file declares {each.name} too", "keep one of them"
                )
            found[each.name] = each
        except (OSError, InvalidDeclaration) as reason:
            right = reason.right if isinstance(reason, InvalidDeclaration) else "make it readable"
            problems.append(Problem(SETTING, f"{file}: {_said(reason)}", right))
    return tuple(found.values()), problems


def _counts(file: Path) -> bool:
    return not file.name.startswith((".", "_")) and file.suffix not in _NOTES


def _read(file: Path) -> ResourceObject:
    read = _READERS.get(file.suffix)
    if read is None:
        raise InvalidDeclaration(
            "it is neither a .py nor a .json file", "move it out of this directory"
        )
    _nobody_else_writes(file)
    with file.open("rb") as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidDeclaration("it is larger than 1 MiB", "declare less")
    try:
        return read(file, data.decode())
    except UnicodeDecodeError:
        raise InvalidDeclaration("it is not UTF-8 text", "save it as UTF-8") from None


def _nobody_else_writes(path: Path) -> None:
    # Code in these files runs inside the servers.
    if path.stat().st_mode & S_IWOTH:
        raise InvalidDeclaration("every user of this machine may write it", f"chmod o-w {path}")


def _said(reason: Exception) -> str:
    if isinstance(reason, OSError):
        return (reason.strerror or "it cannot be read").lower()
    return str(reason)
