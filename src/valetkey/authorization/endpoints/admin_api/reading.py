"""Validate the path, query and body of a call by its operation's schemas."""

import re
from collections.abc import Mapping
from typing import cast

import msgspec

from valetkey.authorization.operations.operation import InvalidInput, Operation, Parameter
from valetkey.authorization.operations.records import fault_of
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request
from valetkey.web.form import read_query
from valetkey.web.json_body import read_json

_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)


def read_body(operation: Operation, request: Request) -> object:
    """The body as the operation takes it; Refused for what does not fit."""
    if operation.takes is None:
        if request.body:
            raise Refused(
                Refusal(ErrorCode.INVALID_REQUEST, "this takes no body", "admin_api.body")
            )
        return None
    try:
        return msgspec.convert(read_json(request.body), type=operation.takes, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidInput([fault_of(error)]) from None


def read_parameters(operation: Operation, request: Request) -> Mapping[str, str]:
    """The query as the operation takes it; Refused for what does not fit."""
    known = {each.name: each for each in operation.query}
    form = read_query(request.query)
    faults = [
        MetadataError("query", "a parameter is unknown") for n in form.names if n not in known
    ][:1]
    said: dict[str, str] = {}
    for name, parameter in known.items():
        value = form.get(name)
        if value is None:
            continue
        if detail := _wrong(parameter, value):
            faults.append(MetadataError(name, detail))
        said[name] = value
    if faults:
        raise InvalidInput(faults)
    return said


def _wrong(parameter: Parameter, value: str) -> str:
    schema = parameter.schema
    kind = schema.get("type")
    if kind == "integer":
        low, high = cast("int", schema["minimum"]), cast("int", schema["maximum"])
        if _NUMBER.fullmatch(value) is None or not low <= int(value) <= high:
            return f"a whole number from {low} to {high}"
    elif kind == "boolean":
        if value not in {"true", "false"}:
            return "true or false"
    elif "enum" in schema:
        known = cast("list[str]", schema["enum"])
        if value not in known:
            return f"one of: {', '.join(known)}"
    else:
        return _wrong_text(parameter, value)
    return ""


def _wrong_text(parameter: Parameter, value: str) -> str:
    schema = parameter.schema
    longest = cast("int", schema.get("maxLength", 200))
    least = cast("int", schema.get("minLength", 0))
    if not least <= len(value) <= longest:
        return f"{least} to {longest} characters"
    pattern = cast("str | None", schema.get("pattern"))
    if pattern is not None and re.fullmatch(pattern.removeprefix("^"), value) is None:
        return "as its description says"
    return ""
