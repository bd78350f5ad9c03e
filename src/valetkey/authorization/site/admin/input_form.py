"""Forms derived from the input type of an operation."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import ClassVar, Generic, TypeVar, cast

import msgspec
from msgspec import NODEFAULT, UNSET, Struct, inspect

from valetkey.authorization.actions.admin.import_reasons import Reason, requirement
from valetkey.authorization.actions.admin.permissions import Actor
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Operation,
    Services,
    call_of,
    value_of,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.page import Act, Outcome, Page, Requirement, Show, VisitorRequest
from valetkey.kernel.preconditions import FAILED, NO_PRECONDITIONS, preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.words import translatable
from valetkey.web.form import Form
from valetkey.web.json_body import DEPTH, read_json

R = TypeVar("R", bound=VisitorRequest)
T = TypeVar("T", bound=msgspec.Struct)
V = TypeVar("V")
Words = Mapping[str, tuple[str, str]]
"""Label and hint of each field by its JSON name, translatable. Other fields are left out."""

Faults = tuple[MetadataError, ...]

_ON = "yes"
_LONGEST = 65_536
_BAD_REQUEST = 400
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

    `kind` is `text`, `number`, `lines`, `json`, `choice`, `several` or `flag`. The value of
    `several` has a line per choice.
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

    @property
    def must(self) -> Reason | None:
        """The fault as a text of the catalogue."""
        return requirement(self.fault)


class InputFormPage(Struct, frozen=True):
    """A form that creates or changes one object. Posts `csrf`, `etag` and the fields."""

    template: ClassVar[str] = "admin/input_form.html"

    action: str
    #: The page above, and its title.
    back: str
    above: str
    title: str
    submit: str
    fields: tuple[InputField, ...]
    #: The version that is changed; "" for a new object.
    etag: str = ""
    #: Whether another request changed it meanwhile.
    stale: bool = False
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None


class FormSubject(Struct, frozen=True):
    """The subject of a form: the page above it with its title, and the initial values.

    `etag` is the version that is changed, "" for a new thing.
    """

    back: str
    above: str
    values: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    etag: str = ""
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None


class InputForm(Struct, Generic[R, V], frozen=True):
    """The page with the form for the input of an operation, which runs it.

    The segments of `path` are arguments of the operation. `finish` responds to its result, which is
    of the type `gives`. A conflict is a fault of the field `conflicts`, or an error page for "".
    """

    path: str
    requires: Requirement[R]
    actor: Callable[[R], Actor]
    services: Services
    operation: Operation
    gives: type[V]
    words: Words
    title: str
    subject: Callable[[R], Awaitable[FormSubject]]
    finish: Callable[[R, V], Awaitable[Outcome]]
    submit: str = translatable("Save changes")
    opaque: Collection[str] = ()
    conflicts: str = ""

    def page(self) -> Page[R]:
        """Return the page."""
        act = Act(self.run, opaque=self.opaque)
        return Page(self.path, self.requires, self.show_form, act, title=self.title)

    async def show_form(self, request: R) -> Outcome:
        """Show the form."""
        subject = await self.subject(request)
        return self._show(request, subject)

    async def run(self, request: R) -> Outcome:
        """Run the operation, unless its subject was changed since the form was shown."""
        subject, form = await self.subject(request), request.form
        again = replace(subject, values=typed(form, self.words), etag=form.get("etag") or "")
        seen = preconditions((again.etag or '""',), ()) if subject.etag else NO_PRECONDITIONS
        try:
            body = read_input(self._takes, self.words, form)
            actor, path = self.actor(request), request.arguments
            call = call_of(self.services, self.operation, actor, request.now, path, body)
            result = await value_of(replace(call, preconditions=seen), self.gives)
        except InvalidInput as invalid:
            return self._show(request, again, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED:
                return self._show(request, replace(again, etag=subject.etag), stale=True)
            if not self.conflicts or refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            fault = MetadataError(self.conflicts, refused.refusal.description)
            return self._show(request, again, (fault,))
        return await self.finish(request, result)

    @property
    def _takes(self) -> type[msgspec.Struct]:
        takes = self.operation.takes
        if takes is None:
            raise TypeError(f"{self.operation.id} takes no input")
        return takes

    def _show(
        self, request: R, subject: FormSubject, faults: Faults = (), *, stale: bool = False
    ) -> Show:
        page = InputFormPage(
            action=request.request.path,
            back=subject.back,
            above=subject.above,
            title=self.title,
            submit=self.submit,
            fields=input_fields(self._takes, self.words, subject.values, faults),
            etag=subject.etag,
            stale=stale,
            frame=subject.frame,
            app=subject.app,
        )
        return Show(page, _BAD_REQUEST if faults or stale else 200)


def input_fields(
    kind: type[msgspec.Struct], words: Words, values: Mapping[str, str], faults: Faults = ()
) -> tuple[InputField, ...]:
    """Return the fields of this input type with their values as text."""
    wrong = {fault.field.partition("/")[0]: fault.detail for fault in faults}
    return tuple(
        _field(each, *words[each.encode_name], values.get(each.encode_name), wrong)
        for each in _declared(kind)
        if each.encode_name in words
    )


def typed(form: Form, words: Words) -> Mapping[str, str]:
    """Return the submitted text of each field."""
    return {name: "\n".join(form.all(name))[:_LONGEST] for name in words}


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
    for each in _declared(kind):
        if each.encode_name not in words:
            continue
        try:
            value = _value(each.encode_name, _plain(each.type), texts[each.encode_name])
            given[each.name] = msgspec.convert(value, type=types[each.name])
        except InvalidInput as invalid:
            faults += invalid.faults
        except (ValueError, msgspec.ValidationError):
            faults.append(MetadataError(each.encode_name, ""))
    if faults:
        raise InvalidInput(faults)
    return kind(**given)


def json_value(field: str, text: str) -> object:
    """Return the JSON value in a field, None for an empty one. Raises InvalidInput."""
    if not text.strip():
        return None
    try:
        return read_json(text.encode())
    except Refused as refused:
        detail = _JSON_FAULTS.get(refused.refusal.check, "valid JSON")
        raise InvalidInput([MetadataError(field, detail)]) from None


def _declared(kind: type[msgspec.Struct]) -> Sequence[inspect.Field]:
    info = inspect.type_info(kind)
    return info.fields if isinstance(info, inspect.StructType) else ()


def _plain(declared: inspect.Type) -> inspect.Type:
    if isinstance(declared, inspect.Metadata):
        return _plain(declared.type)
    if isinstance(declared, inspect.UnionType):
        return _plain(next(it for it in declared.types if not isinstance(it, inspect.NoneType)))
    return declared


def _field(
    field: inspect.Field, label: str, hint: str, value: str | None, wrong: Mapping[str, str]
) -> InputField:
    declared = _plain(field.type)
    default = "" if field.default in (NODEFAULT, UNSET) else as_text(field.default)
    one = declared.item_type if isinstance(declared, inspect.ListType) else declared
    enum = one.cls if isinstance(one, inspect.EnumType) else ()
    name = field.encode_name
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


def _value(field: str, declared: inspect.Type, text: str) -> object:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    match declared:
        case inspect.BoolType():
            return text == _ON
        case inspect.IntType():
            return int(text) if text.strip() else None
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
