"""Fields derived from the input type of an operation, and their values in a submitted form."""

from collections.abc import Collection, Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import TypeVar, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, inspect

from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.protocol.register.faults import (
    REASONS,
    MetadataError,
    Reason,
    input_fault,
    reason_of,
)
from valetkey.authorization.site.app_form.form import Sentence, sentence
from valetkey.config.rules import show_lifetime
from valetkey.kernel.moment import UNITS, Lifetime
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.web.body import DEPTH, Form, read_json

T = TypeVar("T", bound=msgspec.Struct)
Words = Mapping[str, tuple[str, str]]
"""Label and hint of each field by its JSON name, translatable. Other fields are left out.

`address.locality` is a field of a field.
"""

Faults = tuple[MetadataError, ...]
Choices = tuple[tuple[str, str], ...]

_ON = "yes"
_MOST_DIGITS = 9
_LONGEST = 65_536
_JSON_FAULTS = {
    "json.duplicate": "JSON without duplicate names in an object",
    "json.too_deep": f"JSON with at most {DEPTH} levels",
    "json.integer": "JSON with integers of at most 2**53",
    "json.number": "JSON with numbers that fit a double",
    "json.constant": "JSON without NaN and Infinity",
    "json.text": "JSON without U+0000 and lone surrogates",
}
"""The required format by the check that refused the text; "valid JSON" for any other check."""


class InputField(Struct, frozen=True):
    """A field of the form.

    `kind` is `text`, `number`, `lines`, `json`, `choice`, `several`, `flag`, `secret` or
    `duration`. The value of `several` has a line per choice, that of `duration` has a `unit`: `s`,
    `m`, `h` or `d`. Fields with the same `group`, a translatable title, are in one section.
    """

    name: str
    label: str
    hint: str
    kind: str
    value: str
    required: bool
    choices: tuple[tuple[str, str], ...] = ()
    faulty: bool = False
    #: The requirement of the field, if it is known.
    fault: str = ""
    group: str = ""
    #: What the header of its closed section says, translatable, with its `%(value)s`.
    state: str = ""
    #: Whether its section is shown open, although the field is not at fault.
    is_open: bool = False
    #: What is wrong with a field of an app, as in the portal.
    sentence: Sentence | None = None
    #: The fault as a template with its values, if it has one.
    must: Reason | None = None
    unit: str = ""


def input_fields(
    kind: type[msgspec.Struct],
    words: Words,
    values: Mapping[str, str],
    faults: Faults = (),
    *,
    choices: Mapping[str, Choices] = MappingProxyType({}),
    groups: Mapping[str, str] = MappingProxyType({}),
    states: Mapping[str, str] = MappingProxyType({}),
    durations: Collection[str] = (),
    opened: Collection[str] = (),
) -> tuple[InputField, ...]:
    """Return the fields of this input type with their values as text, in the order of `words`."""
    declared = _declared(kind)
    wrong: dict[str, MetadataError] = {}
    for fault in faults:
        name, _, rest = fault.field.partition("/")
        wrong.setdefault(name if name in declared else f"{name}.{rest}", fault)
    details = {name: fault.detail for name, fault in wrong.items()}
    found: list[InputField] = []
    for name, text in words.items():
        each = _field(name, declared[name], *text, values.get(name), details)
        several = name in choices and each.kind == "lines"
        if name in durations:
            number, unit = _in_unit(each.value)
            each = replace(each, kind="duration", value=number, unit=unit)
        found.append(
            replace(
                each,
                kind="several" if several else each.kind,
                choices=choices.get(name, each.choices),
                group=groups.get(name, ""),
                state=states.get(name, ""),
                is_open=name in opened,
                sentence=_sentence(wrong.get(name)),
                must=reason_of(wrong[name]) if name in wrong else None,
            )
        )
    return tuple(found)


def _sentence(fault: MetadataError | None) -> Sentence | None:
    if fault is None or not fault.code or fault.code in REASONS:
        return None
    return sentence(fault)


def repeated(kind: type[msgspec.Struct], names: Collection[str]) -> tuple[str, ...]:
    """Return those of these fields that are lists, whose name a form repeats for each choice."""
    declared = _declared(kind)
    return tuple(
        name for name in names if isinstance(_plain(declared[name].type), inspect.ListType)
    )


def in_lines(kind: type[msgspec.Struct], names: Collection[str]) -> tuple[str, ...]:
    """Return those of these fields whose text has several lines."""
    declared = _declared(kind)
    return tuple(name for name in names if _kind(_plain(declared[name].type)) in {"lines", "json"})


def typed(form: Form, words: Words) -> Mapping[str, str]:
    """Return the submitted text of each field; a whole number with a unit in seconds.

    The unit of the field `x` is in `unit-x`. Other text keeps its unit, and is no number.
    """
    return {name: _submitted(form, name)[:_LONGEST] for name in words}


def _submitted(form: Form, name: str) -> str:
    text, unit = "\n".join(form.all(name)), form.get(f"unit-{name}")
    number = text.strip()
    if unit is None or not number:
        return text
    if unit in UNITS and len(number) <= _MOST_DIGITS and number.isascii() and number.isdigit():
        return str(int(number) * UNITS[unit])
    return f"{number} {unit}"


def _in_unit(text: str) -> tuple[str, str]:
    """Return seconds in the largest unit that divides them; other text as it was typed."""
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        number, _, unit = text.rpartition(" ")
        return (number, unit) if unit in UNITS else (text, "m")
    shown = show_lifetime(Lifetime(seconds)) if (seconds := int(text)) else "0s"
    return shown[:-1], shown[-1]


def as_text(value: object) -> str:
    """Return a value as the text of its field; a dictionary has a line per entry."""
    match value:
        case None:
            return ""
        case bool():
            return _ON if value else ""
        case Enum():
            return str(value.value)
        case dict():
            return "\n".join(f"{name} {text}" for name, text in value.items())  # pyright: ignore[reportUnknownVariableType]
        case list():
            return "\n".join(str(each) for each in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return str(value)


def read_input(kind: type[T], words: Words, form: Form) -> T:
    """Return the submitted input. Raises InvalidInput with every invalid field."""
    texts, faults = typed(form, words), list[MetadataError]()
    types = {each.name: each.type for each in msgspec.structs.fields(kind)}
    given: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {}
    for name, each in _declared(kind).items():
        if name not in words:
            continue
        whole, _, part = name.rpartition(".")
        try:
            value = _value(name, _plain(each.type), texts[name], nullable=_is_nullable(each.type))
            if whole:
                # Checked with its siblings, but the fault is about this field.
                msgspec.convert({part: value}, type=types[whole])
                parts.setdefault(whole, {})[part] = value
            else:
                given[each.name] = msgspec.convert(value, type=types[each.name])
        except InvalidInput as invalid:
            faults += invalid.faults
        except (ValueError, msgspec.ValidationError):
            faults.append(MetadataError(name, ""))
    if faults:
        raise InvalidInput(faults)
    given |= {whole: msgspec.convert(each, type=types[whole]) for whole, each in parts.items()}
    return kind(**given)


def json_value(field: str, text: str) -> object:
    """Return the JSON value in a field, None for an empty one. Raises InvalidInput."""
    if not text.strip():
        return None
    try:
        return read_json(text.encode())
    except Refused as refused:
        detail = _JSON_FAULTS.get(refused.refusal.check)
        fault = MetadataError(field, detail) if detail else input_fault(field, "text.json")
        raise InvalidInput([fault]) from None


@cache
def _declared(kind: type[msgspec.Struct]) -> Mapping[str, inspect.Field]:
    """Return the fields by name, those of a field that is an object itself as `field.part`."""
    found: dict[str, inspect.Field] = {}
    info = inspect.type_info(kind)
    for each in info.fields if isinstance(info, inspect.StructType) else ():
        declared = _plain(each.type)
        if isinstance(declared, inspect.StructType):
            found |= {f"{each.encode_name}.{part.encode_name}": part for part in declared.fields}
        else:
            found[each.encode_name] = each
    return found


def _is_nullable(declared: inspect.Type) -> bool:
    if isinstance(declared, inspect.Metadata):
        return _is_nullable(declared.type)
    types = declared.types if isinstance(declared, inspect.UnionType) else ()
    return any(isinstance(each, inspect.NoneType) for each in types)


def _plain(declared: inspect.Type) -> inspect.Type:
    if isinstance(declared, inspect.Metadata):
        return _plain(declared.type)
    if isinstance(declared, inspect.UnionType):
        return _plain(next(it for it in declared.types if not isinstance(it, inspect.NoneType)))
    return declared


def _field(
    name: str,
    field: inspect.Field,
    label: str,
    hint: str,
    value: str | None,
    wrong: Mapping[str, str],
) -> InputField:
    declared = _plain(field.type)
    default = "" if field.default in (NODEFAULT, UNSET) else as_text(field.default)
    one = declared.item_type if isinstance(declared, inspect.ListType) else declared
    enum = one.cls if isinstance(one, inspect.EnumType) else ()
    return InputField(
        name=name,
        label=label,
        hint=hint,
        kind=_kind(declared),
        value=default if value is None else value,
        required=field.required,
        choices=tuple((str(each.value), str(each.value)) for each in enum),
        faulty=name in wrong,
        fault=wrong.get(name, ""),
    )


def _kind(declared: inspect.Type) -> str:
    match declared:
        case inspect.IntType():
            return "number"
        case inspect.EnumType():
            return "choice"
        case inspect.BoolType():
            return "flag"
        case inspect.ListType(item_type=inspect.EnumType()):
            return "several"
        case inspect.DictType() if _is_json(declared):
            return "json"
        case inspect.ListType() | inspect.DictType():
            return "lines"
        case _:
            return "text"


def _is_json(declared: inspect.DictType) -> bool:
    """Return whether the values may be any JSON, so that the field takes the object as JSON."""
    return isinstance(_plain(declared.value_type), inspect.CustomType)


def _value(field: str, declared: inspect.Type, text: str, *, nullable: bool = False) -> object:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    match declared:
        case inspect.BoolType():
            return text == _ON
        case inspect.IntType():
            return int(text) if text.strip() else None
        case inspect.EnumType() if nullable and not text:
            return None
        case inspect.ListType():
            return lines
        case inspect.DictType() if _is_json(declared):
            value = json_value(field, text)
            if value is not None and not isinstance(value, dict):
                raise InvalidInput([MetadataError(field, "a JSON object")])
            return cast("dict[str, object]", value or {})
        case inspect.DictType():
            # Names have no spaces. A name without a text, or twice, is an error.
            entries = dict(line.split(None, 1) for line in lines)
            if len(entries) != len(lines):
                raise ValueError(text)
            return entries
        case _:
            return text.strip()
