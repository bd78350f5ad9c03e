"""Declared objects: a directory of JSON Schemas with `x-valetkey`, and of Python files."""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from pathlib import Path
from stat import S_IWOTH
from types import MappingProxyType, ModuleType
from typing import cast

import msgspec

from valetkey.config.agreement import Problem
from valetkey.config.load import OperatorErrors
from valetkey.config.settings import Settings
from valetkey.kernel.refusal import Refused
from valetkey.kernel.shapes.json_schema import JsonSchema, Unusable
from valetkey.resource.objects import OBJECTS
from valetkey.resource.objects.declared.invalid import InvalidDeclaration, check
from valetkey.resource.resource_object import OwnedBy, ResourceObject, Verb
from valetkey.web.json_body import read_json

_PACKAGE = "valetkey_declared_"


def from_python(file: Path, text: str) -> ResourceObject:
    """Run the file and return the object it declares.

    Raises InvalidDeclaration for every exception in it.
    """
    module = ModuleType(_PACKAGE + file.stem)
    module.__file__ = str(file)
    # A dataclass resolves the names in its annotations through its module.
    sys.modules[module.__name__] = module
    try:
        exec(compile(text, str(file), "exec"), module.__dict__)  # noqa: S102 - the operator's own
    except (Exception, SystemExit) as reason:  # noqa: BLE001 - it is not our code
        raise InvalidDeclaration(_what_happened(file, reason), "fix the file") from None
    declared = getattr(module, "OBJECT", None)
    if not isinstance(declared, ResourceObject):
        raise InvalidDeclaration("it has no OBJECT", "end the file with OBJECT = ResourceObject(…)")
    return check(declared, file)


def _what_happened(file: Path, reason: BaseException) -> str:
    line = 0
    if isinstance(reason, SyntaxError):
        line = reason.lineno or 0
    trace = reason.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    said = reason.msg if isinstance(reason, SyntaxError) else str(reason)
    where = f" in line {line}" if line else ""
    return f"{type(reason).__name__}{where}: {said.splitlines()[0] if said else ''}".rstrip(": ")


BLOCK = "x-valetkey"


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings that JSON Schema lacks; names are those of ResourceObject."""

    reads: str
    writes: str = ""
    verbs: frozenset[Verb] = frozenset(Verb)
    owned_by: OwnedBy = OwnedBy.USER
    sort: tuple[str, ...] = ()
    filter: tuple[str, ...] = ()
    requires_if_match: bool = False
    deprecated: date | None = None
    sunset: date | None = None


def from_json(file: Path, text: str) -> ResourceObject:
    """Return the object that the file declares. Raises InvalidDeclaration."""
    try:
        document = read_json(text.encode())
    except Refused as refused:
        reason = f"{refused.refusal.description}{_place(text)}"
        raise InvalidDeclaration(reason, "write one JSON object") from None
    if not isinstance(document, dict):
        raise InvalidDeclaration("it is no JSON object", "write a JSON Schema")
    schema = cast("dict[str, object]", document)
    block = _block(schema.pop(BLOCK, None))
    try:
        shape = JsonSchema(schema)
    except Unusable as reason:
        raise InvalidDeclaration(str(reason), "fix the schema") from None
    declared = ResourceObject(
        file.stem,
        shape,
        block.verbs,
        reads=block.reads,
        writes=block.writes,
        owned_by=block.owned_by,
        sort=block.sort,
        filter=block.filter,
        requires_if_match=block.requires_if_match,
        deprecated=block.deprecated,
        sunset=block.sunset,
    )
    return check(declared, file)


def _place(text: str) -> str:
    try:
        json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError):
            return f" (line {error.lineno}, column {error.colno})"
    return ""


def _block(value: object) -> Block:
    if value is None:
        raise InvalidDeclaration(
            f'it has no "{BLOCK}"', f'add "{BLOCK}": {{"reads": "read your …", "writes": "…"}}'
        )
    try:
        return msgspec.convert(value, type=Block)
    except msgspec.ValidationError as error:
        known = ", ".join(field.name for field in msgspec.structs.fields(Block))
        reason = str(error).replace("`", "").replace(" - at $", " at ")
        raise InvalidDeclaration(f"{BLOCK}: {reason}", f"it may have: {known}") from None


SETTING = "resource.objects"

MOST = 40
"""Maximum number of files: each adds two scopes, and a token can carry a hundred."""

_LARGEST = 1024 * 1024
_READERS: Mapping[str, Callable[[Path, str], ResourceObject]] = MappingProxyType(
    {".py": from_python, ".json": from_json}
)
_NOTES = frozenset((".md", ".txt"))


def objects_of(settings: Settings) -> tuple[ResourceObject, ...]:
    """Return Valetkey's objects and then those that the settings declare, by name.

    Raises OperatorErrors with every file that is invalid.
    """
    found, problems = read_directory(settings)
    if problems:
        raise OperatorErrors(f"the directory {SETTING}", problems)
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
        return (), (
            Problem(SETTING, f"{folder}: {_describe(reason)}", "name a directory of objects"),
        )
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
            problems.append(Problem(SETTING, f"{file}: {_describe(reason)}", right))
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


def _describe(reason: Exception) -> str:
    if isinstance(reason, OSError):
        return (reason.strerror or "it cannot be read").lower()
    return str(reason)
