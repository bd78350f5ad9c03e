"""Attributes of imported users: judged by the declared schemas."""

import re
from collections.abc import Collection, Iterator, Mapping

from valetkey.authorization.actions.attributes import (
    merged_attributes,
    takes_json,
    typed_value,
)
from valetkey.authorization.model.account.user import ATTRIBUTE_NAME, Attribute, UserAttributes
from valetkey.authorization.model.account.user_import import ImportKind
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.kernel.refusal import Refused
from valetkey.web.json_body import read_json

_NUMBER = r"(-?\d+)"
_SENTENCES = tuple(
    (re.compile(pattern), sentence)
    for pattern, sentence in (
        (r"this is not of type string", "must be text"),
        (r"this is not of type integer", "must be a whole number"),
        (r"this is not of type number", "must be a number"),
        (r"this is not of type boolean", "must be true or false"),
        (r"this is not of type object", "must be an object"),
        (r"this is not of type array", "must be a list"),
        (r"this is not one of .*|.* was expected", "must be a value that the attribute allows"),
        (r"this is longer than (\d+) characters?", r"must have at most \1 characters"),
        (r"this is shorter than 1 character", "must not be empty"),
        (r"this is shorter than (\d+) characters", r"must have at least \1 characters"),
        (rf"this is less than the minimum of {_NUMBER}", r"must be at least \1"),
        (rf"this is greater than the maximum of {_NUMBER}", r"must be at most \1"),
        (r"at most (\d+) bytes of JSON", r"must have at most \1 bytes of JSON together"),
        (
            r"whole numbers below .*",
            "must have whole numbers below 2**53 and at most six levels of lists and objects",
        ),
    )
)
"""Details of `attribute_faults`, with the sentences shown."""

_OTHER = "must fit the schema of the attribute"


def imported_attributes(
    declared: Collection[Attribute], given: Mapping[str, object], kind: ImportKind
) -> UserAttributes | tuple[str, ...]:
    """Return the attributes of a row, or sentences about what is wrong with them.

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
                faults.append(f"attributes/{name}: must be valid JSON")
    if faults:
        return tuple(dict.fromkeys(faults))
    found = merged_attributes(declared, UserAttributes.NOTHING, values)
    return tuple(dict.fromkeys(_sentences(found))) if isinstance(found, tuple) else found


def _read(attribute: Attribute, text: str) -> object:
    if takes_json(attribute):
        return read_json(text.encode())
    return typed_value(attribute, text)


def _unknown(name: str) -> str:
    if re.fullmatch(ATTRIBUTE_NAME, name) is None:
        return "attributes: has an unknown member"
    return f"attributes/{name}: is not declared"


def _sentences(faults: Collection[MetadataError]) -> Iterator[str]:
    for fault in faults:
        # Below an attribute, a path may have any characters.
        field = "/".join(fault.field.split("/")[:2])
        found = ((pattern.fullmatch(fault.detail), said) for pattern, said in _SENTENCES)
        said = next((match.expand(said) for match, said in found if match), _OTHER)
        yield f"{field}: {said}"
