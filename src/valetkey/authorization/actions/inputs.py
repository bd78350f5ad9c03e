"""Validation of an operation's input: allowed characters, and the name of the invalid field."""

import re

import msgspec

from valetkey.authorization.protocol.register.faults import MetadataError

NO_CONTROLS = r"^[^\u0000-\u001f\u007f-\u009f]*$"
"""The pattern of a line of text: no control characters."""

_WHERE = re.compile(r" - at `\$(.*)`$")
_STEP = re.compile(r"\.([a-z_]+)|\[(\d+)\]|\[\.\.\.\]")


def fault_of(error: msgspec.ValidationError) -> MetadataError:
    """Return which field of an input is invalid, as in `redirect_uris/0`, and why."""
    message = str(error)
    where = _WHERE.search(message)
    path = "" if where is None else where[1]
    steps = [step[1] or step[2] or "" for step in _STEP.finditer(path)]
    detail = message[: where.start()] if where else message
    detail = detail.replace("Expected `str` matching regex", "must match")
    missing = re.search(r"missing required field `([a-z_]+)`", detail)
    if missing:
        return MetadataError("/".join([*steps, missing[1]]), "is missing")
    if "unknown field" in detail:
        return MetadataError("/".join(steps), "has a member that is unknown")
    return MetadataError("/".join(steps), detail)
