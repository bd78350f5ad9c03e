"""Declared objects: a directory of JSON Schemas with `x-valetkey`, and of Python files."""

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
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
from valetkey.kernel.shapes import RESERVED, JsonSchema, NotLocal, UnusableSchema
from valetkey.resource.objects import OBJECTS
from valetkey.resource.requests.paging import RESERVED as IN_QUERIES
from valetkey.resource.resource_object import Backend, OwnedBy, ResourceObject, Verb
from valetkey.resource.storage.objects import CHANGED
from valetkey.web.body import read_json

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)
_SENTENCE = re.compile(r"[a-z][^\x00-\x1f\x7f<>]{2,98}[^\s.!]")
_MOST_LISTS = 24
_TAKEN = frozenset(("read", "write", *(kind.name for kind in OBJECTS)))


class InvalidDeclaration(Exception):
    """An error in a file; `right` says what would be valid."""

    def __init__(self, reason: str, right: str) -> None:
        """Store `reason` and what would be valid."""
        super().__init__(reason)
        self.right = right


def check(declared: ResourceObject, file: Path) -> ResourceObject:
    """Return `declared` if it follows the rules. Raises InvalidDeclaration."""
    name = file.stem
    if _NAME.fullmatch(name) is None:
        raise InvalidDeclaration(
            f"{name!r} is not a valid name for an object",
            "call the file by a word of lower-case letters, digits, _ and -, such as books.json",
        )
    if declared.name != name:
        raise InvalidDeclaration(
            f"it declares {declared.name!r}", f"the file's name is the object's: {name!r}"
        )
    if name in _TAKEN:
        raise InvalidDeclaration(
            f"{name!r} comes with Valetkey", "choose another name for the file"
        )
    _check_words(declared)
    if declared.home is not Backend.HERE or declared.singleton or declared.either:
        raise InvalidDeclaration(
            "home, singleton and either are not for declared objects", "leave them out"
        )
    _check_fields(declared)
    _check_lists(declared)
    if declared.sunset and (declared.deprecated is None or declared.sunset < declared.deprecated):
        raise InvalidDeclaration(
            "its sunset is not after its deprecation", "set deprecated to an earlier day"
        )
    return declared


def _check_words(declared: ResourceObject) -> None:
    if not declared.verbs:
        raise InvalidDeclaration("it has no verbs", f"name some of: {', '.join(Verb)}")
    for word, sentence, needed in (
        ("reads", declared.reads, True),
        ("writes", declared.writes, any(verb.writes for verb in declared.verbs)),
    ):
        if needed and _SENTENCE.fullmatch(sentence) is None:
            raise InvalidDeclaration(
                f"{word} is not the sentence that says what its scope is for",
                f'finish "This app wants to …": {word} = "read your {declared.name}"',
            )
        if sentence and not needed:
            raise InvalidDeclaration(
                f"nothing of it can be written, but it has {word}", f"leave out {word}"
            )


def _check_fields(declared: ResourceObject) -> None:
    shape = declared.shape
    if isinstance(shape, type) and not is_dataclass(shape):
        raise InvalidDeclaration(
            "its shape is not a dataclass", "write @dataclass(frozen=True) above it"
        )
    try:
        fields = declared.fields
        taken = [name for name in fields.names if name in RESERVED]
        errors, _ = fields.validate(fields.defaults)
        schema = fields.schema
    except (TypeError, NameError, ValueError, NotLocal, msgspec.MsgspecError) as reason:
        raise InvalidDeclaration(
            f"its fields cannot be checked: {reason}", "use types that JSON has"
        ) from None
    if taken or not schema.get("properties"):
        detail = f"the server sets {taken[0]} of every object" if taken else "it has no fields"
        raise InvalidDeclaration(detail, "declare the fields that callers write")
    if errors:
        where = f"{errors[0].pointer}: {errors[0].detail}"
        raise InvalidDeclaration(f"a default is not valid: {where}", "change the default")


def _check_lists(declared: ResourceObject) -> None:
    simple = declared.scalars
    for word, names in (("sort", declared.sort), ("filter", declared.filter)):
        for name in names:
            if name not in simple and (word, name) != ("sort", CHANGED):
                raise InvalidDeclaration(
                    f"{word} names {name!r}, which is not a field of text, number or boolean",
                    "name fields that always hold one simple thing",
                )
        if len(set(names)) != len(names):
            raise InvalidDeclaration(f"{word} names a field twice", "name it once")
    if taken := [name for name in declared.filter if name in IN_QUERIES]:
        raise InvalidDeclaration(
            f"a query string uses {taken[0]!r}", "call the field by another name"
        )
    if len(declared.orders.names) > _MOST_LISTS:
        raise InvalidDeclaration(
            f"sort and filter together make {len(declared.orders.names)} lists",
            f"every change writes into each of them: {_MOST_LISTS} at most",
        )
    if (declared.sort or declared.filter) and Verb.LIST not in declared.verbs:
        raise InvalidDeclaration(
            "it has sort or filter, but there are no lists of it", 'add the verb "list"'
        )


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
        raise InvalidDeclaration(_failure(file, reason), "fix the file") from None
    declared = getattr(module, "OBJECT", None)
    if not isinstance(declared, ResourceObject):
        raise InvalidDeclaration("it has no OBJECT", "end the file with OBJECT = ResourceObject(…)")
    return check(declared, file)


def _failure(file: Path, reason: BaseException) -> str:
    line = 0
    if isinstance(reason, SyntaxError):
        line = reason.lineno or 0
    trace = reason.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(file):
            line = trace.tb_lineno
        trace = trace.tb_next
    text = reason.msg if isinstance(reason, SyntaxError) else str(reason)
    where = f" in line {line}" if line else ""
    return f"{type(reason).__name__}{where}: {text.splitlines()[0] if text else ''}".rstrip(": ")


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
    except UnusableSchema as reason:
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
        names = ", ".join(field.name for field in msgspec.structs.fields(Block))
        reason = str(error).replace("`", "").replace(" - at $", " at ")
        raise InvalidDeclaration(f"{BLOCK}: {reason}", f"it may have: {names}") from None


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
    objects, problems = read_directory(settings)
    if problems:
        raise OperatorErrors(f"the directory {SETTING}", problems)
    return (*OBJECTS, *objects)


def read_directory(settings: Settings) -> tuple[Sequence[ResourceObject], Sequence[Problem]]:
    """Return the declared objects, and the errors of the invalid files."""
    if not settings.resource.objects:
        return (), ()
    folder = settings.source.directory / settings.resource.objects
    try:
        _require_protected(folder)
        files = sorted(file for file in folder.iterdir() if _counts(file))
    except (OSError, InvalidDeclaration) as reason:
        return (), (
            Problem(SETTING, f"{folder}: {_describe(reason)}", "name a directory of objects"),
        )
    if len(files) > MOST:
        return (), (Problem(SETTING, f"{folder} has {len(files)} files", f"{MOST} are allowed"),)
    objects: dict[str, ResourceObject] = {}
    problems: list[Problem] = []
    for file in files:
        try:
            kind = _read(file)
            if kind.name in objects:
                raise InvalidDeclaration(
                    f"another file declares {kind.name} too", "keep one of them"
                )
            objects[kind.name] = kind
        except (OSError, InvalidDeclaration) as reason:
            right = reason.right if isinstance(reason, InvalidDeclaration) else "make it readable"
            problems.append(Problem(SETTING, f"{file}: {_describe(reason)}", right))
    return tuple(objects.values()), problems


def _counts(file: Path) -> bool:
    return not file.name.startswith((".", "_")) and file.suffix not in _NOTES


def _read(file: Path) -> ResourceObject:
    read = _READERS.get(file.suffix)
    if read is None:
        raise InvalidDeclaration(
            "it is neither a .py nor a .json file", "move it out of this directory"
        )
    _require_protected(file)
    with file.open("rb") as opened:
        data = opened.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise InvalidDeclaration("it is larger than 1 MiB", "declare less")
    try:
        return read(file, data.decode())
    except UnicodeDecodeError:
        raise InvalidDeclaration("it is not UTF-8 text", "save it as UTF-8") from None


def _require_protected(path: Path) -> None:
    # Code in these files runs inside the servers.
    if path.stat().st_mode & S_IWOTH:
        raise InvalidDeclaration("every user of this machine may write it", f"chmod o-w {path}")


def _describe(reason: Exception) -> str:
    if isinstance(reason, OSError):
        return (reason.strerror or "it cannot be read").lower()
    return str(reason)
