"""Run operations of administration as the operator of the command line."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

from valetkey.authorization.operations.operation import (
    InvalidInput,
    Operation,
    Result,
    call_of,
)
from valetkey.authorization.protocol.register.client_metadata import MetadataError
from valetkey.cli.register.keeper import refused
from valetkey.cli.register.store import Opened

_MOST = "200"


async def perform(
    opened: Opened,
    operation: Operation,
    arguments: Mapping[str, str] | None = None,
    body: object = None,
    *,
    query: Mapping[str, str] | None = None,
    password_hash: str | None = None,
    named: Callable[[MetadataError], MetadataError] = lambda fault: fault,
) -> object:
    """Run an operation and return its value; of a list, the items of all pages.

    Raises Mistake for invalid input, with the fields as they are `named`, and Refused.
    """
    path = {name: quote(value, safe="") for name, value in (arguments or {}).items()}
    asked, items = dict(query or {}), list[object]()
    if any(each.name == "limit" for each in operation.query):
        asked["limit"] = _MOST
    while True:
        call = call_of(
            opened.foundation.services, operation, opened.operator, opened.now, path, body, asked
        )
        try:
            result = await operation.run(replace(call, password_hash=password_hash))
        except InvalidInput as invalid:
            raise refused(map(named, invalid.faults)) from None
        value = result.value if isinstance(result, Result) else None
        if not operation.lists:
            return value
        items += getattr(value, "items", ())
        if not isinstance(result, Result) or not result.next:
            return items
        asked["after"] = result.next
