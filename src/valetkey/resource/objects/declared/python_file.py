"""A declared object in Python: a frozen dataclass, and `OBJECT = ResourceObject(...)`."""

import sys
from pathlib import Path
from types import ModuleType

from valetkey.resource.objects.declared.invalid import InvalidDeclaration, check
from valetkey.resource.resource_object import ResourceObject

_PACKAGE = "valetkey_declared_"


def read(file: Path, text: str) -> ResourceObject:
    """Run the file and return the object it declares. Raises Wrong for every exception in it."""
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
