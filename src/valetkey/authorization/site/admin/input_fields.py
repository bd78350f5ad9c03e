"""Fields derived from the input type of an operation, and their values in a submitted form."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from itertools import zip_longest
from types import MappingProxyType
from typing import TypeVar, cast

import msgspec
from msgspec import NODEFAULT, Struct, UnsetType, inspect

from valetkey.authorization.layout.contexts import When
from valetkey.authorization.operations.operation import InvalidInput
from valetkey.authorization.protocol.register.fault_texts import FAULTS, SENTENCES
from valetkey.authorization.protocol.register.faults import (
    CODE,
    VALUES,
    MetadataError,
    Reason,
    Values,
    fault,
    input_fault,
    reason_of,
)
from valetkey.authorization.site.admin.references import Offered
from valetkey.config.rules import show_lifetime
from valetkey.kernel.moment import UNITS, Lifetime, parse_lifetime
from valetkey.kernel.refusal import OperatorError, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import DEPTH, Form, read_json

T = TypeVar("T", bound=msgspec.Struct)
Words = Mapping[str, tuple[str, str]]
"""Label and hint of each field by its JSON name, translatable. Other fields are left out.

`address.locality` is a field of a field.
"""

Faults = tuple[MetadataError, ...]
Choices = tuple[tuple[str, str], ...]

MOST_ROWS = 60
"""Rows of all lists of a form; beyond them the longest are text areas. A form has 100 fields."""

_ON = "yes"
_MOST_DIGITS = 9
_DURATION = re.compile(r"[0-9]{1,9}([.,][0-9]{1,2})?")
"""A number with at most two decimals: with three, a comma could separate thousands."""

_LONGEST = 65_536


class Sentence(Struct, frozen=True):
    """A sentence, translatable, and the values that fill it, those of `times` as times.

    Without any, it is whole.
    """

    text: str
    values: Values = msgspec.field(default_factory=dict[str, str])
    times: Mapping[str, When] = msgspec.field(default_factory=dict[str, When])


class InputField(Struct, frozen=True):
    """A field of the form.

    `kind` is `text`, `prose` (a text of several lines), `number`, `list`, `pairs`, `lines`, `json`,
    `choice`, `several`, `flag`, `secret`, `duration` or `file`, whose choices are the types of
    files to choose from. A `list` has a row for each line of its
    value, and an empty one; those are fields themselves, with their faults. So have `pairs`, whose
    rows have a name as their value and a `text`. The value of `several`
    has a line per choice, and those of its choices without a value are headings; that of
    `duration` has a `unit`: `s`, `m`, `h` or `d`. Fields with the same `group`, a translatable
    title, are in one section.
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
    rows: tuple["InputField", ...] = ()
    #: What belongs to the name that a row of `pairs` has as its value.
    text: str = ""
    #: Values that are offered while one is typed, each with its name, "" for none.
    options: tuple[tuple[str, str], ...] = ()
    #: The name of what its value names.
    named: str = ""
    #: Whether the empty row has the focus, after another one was added or removed.
    grown: bool = False
    #: What is wrong with a field of an app.
    sentence: Sentence | None = None
    #: The fault as a template with its values, if it has one.
    must: Reason | None = None
    unit: str = ""


_LINE_OF_PAIR = translatable("One per line: the name, a space, and its description.")
_ROW = InputField("", "", "", "text", "", required=False)
_NOTHING = Offered()
_CHOSEN = MappingProxyType({"list": "several", "text": "choice"})
"""The kinds of fields whose values are chosen, in place of those that are typed."""


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
    spaced: Collection[str] = (),
    multiline: Collection[str] = (),
    secrets: Collection[str] = (),
    before: Mapping[str, str] | None = None,
    opened: Collection[str] = (),
    grown: str = "",
    offers: Mapping[str, Offered] = MappingProxyType({}),
) -> tuple[InputField, ...]:
    """Return the fields of this input type with their values as text, in the order of `words`.

    Fields whose value differs from that in `before` are open.
    """
    declared = _declared(kind)
    fields = {
        name: _field(name, declared[name], *text, values.get(name)) for name, text in words.items()
    }
    for name, field in fields.items():
        shape, offer = field, offers.get(name, _NOTHING)
        names = offer.names
        if name in choices and field.kind in _CHOSEN:
            shape = replace(field, kind=_CHOSEN[field.kind])
        elif field.kind == "list" or name in spaced:
            lines = field.value.split() if name in spaced else _lines(field.value)
            rows = tuple(replace(_ROW, value=it, named=names.get(it, "")) for it in lines)
            value = "\n".join(lines)
            shape = replace(field, kind="list", value=value, rows=(*rows, _ROW))
        elif field.kind == "pairs":
            pairs = _pairs(field.value)
            rows = tuple(replace(_ROW, value=it, text=text) for it, text in pairs)
            value = "\n".join(" ".join(pair) for pair in pairs)
            shape = replace(field, value=value, rows=(*rows, _ROW))
        elif name in multiline:
            shape = replace(field, kind="prose", value="\n".join(field.value.splitlines()))
        elif name in secrets:
            # It is typed unseen, and never shown again.
            shape = replace(field, kind="secret", value="")
        elif name in durations:
            number, unit = _in_unit(field.value)
            shape = replace(field, kind="duration", value=number, unit=unit)
        fields[name] = replace(
            shape,
            choices=choices.get(name, field.choices),
            group=groups.get(name, ""),
            state=states.get(name, ""),
            is_open=name in opened
            or name == grown
            or (before is not None and _is_changed(declared[name], field.value, before.get(name))),
            grown=name == grown,
            options=tuple(offer.options),
            named=names.get(field.value.strip(), ""),
        )
    # The first fault of a field or of a row is told.
    for wrong in reversed(faults):
        name, _, rest = wrong.field.partition("/")
        name = name if name in fields else f"{name}.{rest}"
        if name in fields:
            fields[name] = _at_fault(fields[name], wrong, rest)
    return _within_limit(tuple(fields.values()))


def _at_fault(field: InputField, error: MetadataError, key: str) -> InputField:
    """Return the field with this fault, in its row if `key` is the number of one."""
    rows, number = field.rows, int(key) if key.isdecimal() and len(key) < _MOST_DIGITS else -1
    if field.kind == "pairs":
        # The key of an entry is its name; the number of its row if it could not be read.
        number = next((n for n, row in enumerate(rows[:-1]) if row.value == key), number)
    if 0 <= number < len(rows) - 1:
        wrong = _at_fault(rows[number], error, "")
        return replace(field, rows=(*rows[:number], wrong, *rows[number + 1 :]), faulty=True)
    return replace(
        field,
        faulty=True,
        fault=error.detail,
        sentence=_sentence(error),
        must=reason_of(error),
    )


def field_at_fault(error: MetadataError) -> InputField:
    """Return a field that has only this error, for a page without the field."""
    return _at_fault(replace(_ROW, name=error.field), error, "")


def _within_limit(fields: tuple[InputField, ...]) -> tuple[InputField, ...]:
    # A row of pairs has two fields.
    while sum(len(field.rows) * (1 + (field.kind == "pairs")) for field in fields) > MOST_ROWS:
        longest = max(fields, key=lambda field: len(field.rows))
        wrong = next((row for row in longest.rows if row.faulty), longest)
        lines = replace(
            longest,
            kind="lines",
            hint=_LINE_OF_PAIR if longest.kind == "pairs" else longest.hint,
            rows=(),
            fault=wrong.fault,
            sentence=wrong.sentence,
            must=wrong.must,
        )
        fields = tuple(lines if field is longest else field for field in fields)
    return fields


def grown_list(form: Form) -> str | None:
    """Return the list that a button adds an entry to or removes one from; None for other buttons.

    Such a button saves nothing, even for an unknown list.
    """
    button = form.get("add") or form.get("remove")
    return None if button is None else button.partition("/")[0]


def entries(form: Form, name: str) -> Sequence[str]:
    """Return the entries of a list in the form, without the one that a button removes."""
    number = (form.get("remove") or "").removeprefix(f"{name}/")
    typed_in = _typed_in(form, name).split("\n")
    if number.isdecimal() and len(number) < _MOST_DIGITS and int(number) < len(typed_in):
        del typed_in[int(number)]
    return [line.strip(" ") for line in typed_in if line.strip()]


def _typed_in(form: Form, name: str) -> str:
    """Return the entries of a list in the form as lines; those of pairs with a tab between."""
    lines = [line for text in form.all(name) for line in text.splitlines() or ("",)]
    if texts := form.all(_text_of(name)):
        lines = ["\t".join(pair).strip(" ") for pair in zip_longest(lines, texts, fillvalue="")]
    return "\n".join(lines)


def _text_of(name: str) -> str:
    """Return the name of the fields with the texts of the rows of pairs."""
    return f"text-{name}"


def _sentence(error: MetadataError) -> Sentence | None:
    if error.code in SENTENCES:
        return Sentence(SENTENCES[error.code], error.values)
    return None


def lists_of(kind: type[msgspec.Struct], words: Words) -> frozenset[str]:
    """Return the names that a form of these fields repeats for each entry of a list."""
    kinds = _kinds(kind, tuple(words))
    pairs = [it for it, shape in kinds.items() if shape == "pairs"]
    lists = [it for it, shape in kinds.items() if shape in {"list", "several"}]
    return frozenset((*lists, *pairs, *map(_text_of, pairs)))


def texts_of(kind: type[msgspec.Struct], words: Words) -> frozenset[str]:
    """Return those of these fields whose text may have several lines."""
    kinds = _kinds(kind, tuple(words))
    return frozenset(it for it, shape in kinds.items() if shape in {"list", "pairs", "json"})


@cache
def _kinds(kind: type[msgspec.Struct], names: tuple[str, ...]) -> Mapping[str, str]:
    declared = _declared(kind)
    return {it: _kind(_plain(declared[it].type)) for it in names}


def typed(form: Form, words: Words) -> Mapping[str, str]:
    """Return the submitted text of each field; a number with a unit in seconds.

    The unit of the field `x` is in `unit-x`. Other text keeps its unit, and is no number.
    """
    return {name: _submitted(form, name)[:_LONGEST] for name in words}


def typed_again(form: Form, words: Words) -> tuple[Mapping[str, str], str | None]:
    """Return the submitted texts for another look, and the list whose button was pressed.

    The list is None for a button that saves. Any other button saves nothing.
    """
    grown = grown_list(form)
    values = typed(form, words)
    return (values if grown is None else {**values, grown: "\n".join(entries(form, grown))}), grown


def _submitted(form: Form, name: str) -> str:
    text, unit = _typed_in(form, name), form.get(f"unit-{name}")
    number = text.strip()
    if unit is None or not number:
        return text
    if unit in UNITS and _DURATION.fullmatch(number):
        seconds = Decimal(number.replace(",", ".")) * UNITS[unit]
        if seconds == int(seconds):
            return str(int(seconds))
    try:
        return str(parse_lifetime(number))
    except OperatorError:
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
        case None | UnsetType():
            return ""
        case bool():
            return _ON if value else ""
        case Enum():
            return str(value.value)
        case dict():
            return "\n".join(f"{name} {text}" for name, text in value.items())  # pyright: ignore[reportUnknownVariableType]
        case list():
            return "\n".join(str(item) for item in value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case _:
            return str(value)


def read_input(kind: type[T], words: Words, texts: Mapping[str, str]) -> T:
    """Return the input with these texts of its fields. Raises InvalidInput with all that fail."""
    faults = list[MetadataError]()
    types = {field.name: field.type for field in msgspec.structs.fields(kind)}
    values: dict[str, object] = {}
    parts: dict[str, dict[str, object]] = {}
    for name, field in _declared(kind).items():
        if name not in words:
            continue
        whole, _, part = name.rpartition(".")
        try:
            value = _value(name, _plain(field.type), texts[name], nullable=_is_nullable(field.type))
            if whole:
                # Checked with its siblings, but the fault is about this field.
                msgspec.convert({part: value}, type=types[whole])
                parts.setdefault(whole, {})[part] = value
            else:
                values[field.name] = msgspec.convert(value, type=types[field.name])
        except InvalidInput as invalid:
            faults += invalid.faults
        except (ValueError, msgspec.ValidationError):
            faults += _unread(name, texts[name], field)
    if faults:
        raise InvalidInput(faults)
    values |= {
        whole: msgspec.convert(members, type=types[whole]) for whole, members in parts.items()
    }
    return kind(**values)


def _unread(name: str, text: str, field: inspect.Field) -> Sequence[MetadataError]:
    """Return the errors of the entries of a list, each in its row; else one of the field."""
    if not text.strip():
        return (input_fault(name, "length.none"),)
    declared = _plain(field.type)
    faults = list[MetadataError]()
    if isinstance(declared, inspect.ListType):
        for number, line in enumerate(_lines(text)):
            faults += _text_faults(f"{name}/{number}", line, declared.item_type)
    elif isinstance(declared, inspect.DictType) and not _is_json(declared):
        for number, (key, value) in enumerate(_pairs(text)):
            faults += _text_faults(f"{name}/{number}", key, declared.key_type)
            faults += _text_faults(f"{name}/{number}", value, declared.value_type)
    else:
        faults += _text_faults(name, text.strip(), field.type)
    # Without an entry that fails by itself, there are too many.
    return faults or [_out_of_bounds(name, declared)]


def _text_faults(name: str, text: str, kind: inspect.Type) -> Iterator[MetadataError]:
    """Yield what is wrong with one text, at most one error."""
    match _plain(kind):
        case inspect.EnumType(cls=enum) if text not in {str(choice.value) for choice in enum}:
            names = ", ".join(str(choice.value) for choice in enum)
            yield fault(name, "choice.known", known=names)
        case inspect.LiteralType(values=choices) if text not in choices:
            yield fault(name, "choice.known", known=", ".join(map(str, choices)))
        case inspect.StrType(min_length=int(least)) if len(text) < least:
            yield input_fault(name, "length.least", least=least)
        case inspect.StrType(max_length=int(most)) if len(text) > most:
            yield fault(name, "text.length", most=most)
        case inspect.StrType(pattern=str(pattern)) if re.search(pattern, text) is None:
            extra = _extra(kind)
            values = cast("Mapping[str, object]", extra.get(VALUES, {}))
            yield input_fault(name, str(extra.get(CODE, "text.controls")), **values)
        case _:
            pass


def _extra(kind: inspect.Type) -> Mapping[str, object]:
    """Return what is declared about the pattern of a text."""
    match kind:
        case inspect.Metadata():
            extra = cast("Mapping[str, object] | None", getattr(kind, "extra", None)) or {}
            return extra if CODE in extra else _extra(kind.type)
        case inspect.UnionType():
            declared = [_extra(option) for option in kind.types]
            return next(filter(None, declared), dict[str, object]())
        case _:
            return {}


_LIFETIMES = {86_400: "lifetime.day", 31_536_000: "lifetime.year", 315_360_000: "lifetime.decade"}
"""The code of the error of a number of seconds, by the largest."""


def _out_of_bounds(name: str, declared: inspect.Type) -> MetadataError:
    """Return the error of a value that is not of this type, with its bounds if it has any."""
    match declared:
        case inspect.IntType(ge=1, le=int(most)) if most in _LIFETIMES:
            return fault(name, _LIFETIMES[most])
        case inspect.IntType(ge=int(least), le=int(most)):
            return fault(name, "number.range", least=least, most=most)
        case inspect.IntType(ge=int(least)):
            return input_fault(name, "number.least", least=least)
        case inspect.IntType():
            return input_fault(name, "type.integer")
        case inspect.ListType(max_length=int(most)) | inspect.DictType(max_length=int(most)):
            return fault(name, "list.many", most=most)
        case _:
            return MetadataError(name, "")


def json_value(field: str, text: str) -> object:
    """Return the JSON value in a field, None for an empty one. Raises InvalidInput."""
    if not text.strip():
        return None
    try:
        return read_json(text.encode())
    except Refused as refused:
        check = refused.refusal.check
        has_text = check in FAULTS
        wrong = fault(field, check, most=DEPTH) if has_text else input_fault(field, "text.json")
        raise InvalidInput([wrong]) from None


@cache
def _declared(kind: type[msgspec.Struct]) -> Mapping[str, inspect.Field]:
    """Return the fields by name, those of a field that is an object itself as `field.part`."""
    fields: dict[str, inspect.Field] = {}
    info = inspect.type_info(kind)
    for field in info.fields if isinstance(info, inspect.StructType) else ():
        declared = _plain(field.type)
        if isinstance(declared, inspect.StructType):
            fields |= {f"{field.encode_name}.{part.encode_name}": part for part in declared.fields}
        else:
            fields[field.encode_name] = field
    return fields


def _is_nullable(declared: inspect.Type) -> bool:
    if isinstance(declared, inspect.Metadata):
        return _is_nullable(declared.type)
    types = declared.types if isinstance(declared, inspect.UnionType) else ()
    return any(isinstance(kind, inspect.NoneType) for kind in types)


def _plain(declared: inspect.Type) -> inspect.Type:
    if isinstance(declared, inspect.Metadata):
        return _plain(declared.type)
    if isinstance(declared, inspect.UnionType):
        return _plain(next(it for it in declared.types if not isinstance(it, inspect.NoneType)))
    return declared


def _field(name: str, field: inspect.Field, label: str, hint: str, value: str | None) -> InputField:
    declared = _plain(field.type)
    one = declared.item_type if isinstance(declared, inspect.ListType) else declared
    enum = one.cls if isinstance(one, inspect.EnumType) else ()
    return InputField(
        name=name,
        label=label,
        hint=hint,
        kind=_kind(declared),
        value=_default(field) if value is None else value,
        required=field.required,
        choices=tuple((str(choice.value), str(choice.value)) for choice in enum),
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
        case inspect.ListType():
            return "list"
        case inspect.DictType():
            return "json" if _is_json(declared) else "pairs"
        case _:
            return "text"


def _is_json(declared: inspect.DictType) -> bool:
    """Return whether the values may be any JSON, so that the field takes the object as JSON."""
    return isinstance(_plain(declared.value_type), inspect.CustomType)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _pairs(text: str) -> list[tuple[str, str]]:
    """Return the name and the text of each line, with a tab or else the first space between."""
    pairs = list[tuple[str, str]]()
    for line in text.splitlines():
        name, _, rest = line.partition("\t") if "\t" in line else line.strip().partition(" ")
        if name.strip() or rest.strip():
            pairs.append((name.strip(), rest.strip()))
    return pairs


def _is_changed(field: inspect.Field, value: str, before: str | None) -> bool:
    """Return whether this text of a field has another meaning than the one before."""
    was = _default(field) if before is None else before
    read = _pairs if _kind(_plain(field.type)) == "pairs" else str.split
    return value != was and read(value) != read(was)


def _default(field: inspect.Field) -> str:
    return "" if field.default is NODEFAULT else as_text(field.default)


def _value(field: str, declared: inspect.Type, text: str, *, nullable: bool = False) -> object:
    lines = _lines(text)
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
                raise InvalidInput([fault(field, "json.object")])
            return cast("dict[str, object]", value or {})
        case inspect.DictType():
            pairs = _pairs(text)
            if wrong := list(_pair_faults(field, pairs)):
                raise InvalidInput(wrong)
            return dict(pairs)
        case _:
            # A browser sends CRLF for a line break.
            return text.strip().replace("\r\n", "\n")


def _pair_faults(field: str, pairs: Sequence[tuple[str, str]]) -> Iterator[MetadataError]:
    names = [name for name, _ in pairs]
    for number, (name, description) in enumerate(pairs):
        if not description or len(name.split()) != 1:
            yield input_fault(f"{field}/{number}", "pair.form")
        elif name in names[:number]:
            yield fault(f"{field}/{number}", "list.repeated")
