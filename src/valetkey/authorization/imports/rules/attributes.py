"""Attributes of imported users: judged by the declared schemas."""

import re
from collections.abc import Collection, Iterable, Mapping

from valetkey.authorization.actions.attributes import (
    merged_attributes,
    takes_json,
    typed_value,
)
from valetkey.authorization.model.account.user import ATTRIBUTE_NAME, Attribute, UserAttributes
from valetkey.authorization.model.account.user_import import ImportKind
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.reasons import Reason, reason
from valetkey.kernel.refusal import Refused
from valetkey.web.json_body import read_json


def imported_attributes(
    declared: Collection[Attribute], given: Mapping[str, object], kind: ImportKind
) -> UserAttributes | tuple[Reason, ...]:
    """Return the attributes of a row, or what is wrong with them.

    A cell is text, read as the type of its attribute, and as JSON where that is no simple type.
    """
    known = {each.name: each for each in declared}
    faults = [_unknown(name) for name in given if name not in known]
    values = dict(given)
    if kind is ImportKind.CSV and not faults:
        for name, text in given.items():
            try:
                values[name] = _read(known[name], str(text))
            except Refused:
                faults.append(reason(f"attributes/{name}", "text.json"))
    if faults:
        return _distinct(faults)
    found = merged_attributes(declared, UserAttributes.NOTHING, values)
    return _distinct(map(_reason, found)) if isinstance(found, tuple) else found


def _read(attribute: Attribute, text: str) -> object:
    if takes_json(attribute):
        return read_json(text.encode())
    return typed_value(attribute, text)


def _unknown(name: str) -> Reason:
    if re.fullmatch(ATTRIBUTE_NAME, name) is None:
        return reason("attributes", "unknown")
    return reason(f"attributes/{name}", "attribute.undeclared")


def _reason(fault: MetadataError) -> Reason:
    # Below an attribute, a path may have any characters.
    return Reason("/".join(fault.field.split("/")[:2]), fault.code, fault.values)


def _distinct(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    return tuple({(each.field, each.text, *each.values.items()): each for each in reasons}.values())
