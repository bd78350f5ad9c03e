"""Forms derived from the input type of an operation."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor
from valetkey.authorization.operations.operation import (
    InvalidInput,
    Operation,
    Services,
    call_of,
    value_of,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.confirm import Offer
from valetkey.authorization.site.admin.input_fields import (
    Choices,
    Faults,
    InputField,
    Words,
    field_at_fault,
    input_fields,
    lists_of,
    read_input,
    texts_of,
    typed,
    typed_again,
)
from valetkey.authorization.site.admin.object_page import Fact, Related
from valetkey.authorization.site.admin.references import Reference, References, offered, resolved
from valetkey.authorization.site.page import Act, Outcome, Page, Requirement, Show, VisitorRequest
from valetkey.authorization.storage.transaction import Store
from valetkey.kernel.preconditions import FAILED, NO_PRECONDITIONS, preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

R = TypeVar("R", bound=VisitorRequest)
V = TypeVar("V")

SAVE = translatable("Save changes")

_BAD_REQUEST = 400


class FormContext(Struct, frozen=True):
    """What a form shows around its fields."""

    #: The page above, and its title.
    back: str
    above: str
    #: The version that is changed; "" for a new object.
    etag: str = ""
    #: What is to be known before the change, translatable.
    note: str = ""
    #: What is to be known while the form is filled in.
    facts: tuple[Fact, ...] = ()
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None
    #: Further values that the form posts, by name.
    hidden: Sequence[tuple[str, str]] = ()
    #: What was done, translatable.
    done: str = ""
    #: What else can be done with the subject.
    offers: Sequence[Offer] = ()


class InputFormPage(FormContext, frozen=True, kw_only=True):
    """A form that creates or changes one object. Posts `csrf`, `etag` and the fields."""

    template: ClassVar[str] = "admin/input_form.html"

    action: str
    title: str
    submit: str
    fields: tuple[InputField, ...]
    #: Whether another request changed it meanwhile.
    stale: bool = False
    #: Why the operation was refused, translatable, if no field is at fault.
    problem: str = ""
    #: What is seldom needed, closed below the form.
    details: tuple[Fact, ...] = ()
    #: Lists below the form, or in its place: without fields there is none.
    related: tuple[Related, ...] = ()
    #: The labels of the fields that another request changed since it was shown.
    changed: tuple[str, ...] = ()
    #: What is wrong with a field that this form does not have.
    error: InputField | None = None

    @property
    def scripts(self) -> tuple[str, ...]:
        """The scripts that its fields and facts need."""
        kinds: set[str] = {field.kind for field in self.fields}
        kinds |= {part.kind for fact in self.facts for part in fact.values}
        needs = {
            "copy.js": {"copy"},
            "filter.js": {"several"},
            "select.js": {"list", "pairs"},
            "show.js": {"secret"},
        }
        return tuple(script for script, of in needs.items() if kinds & of)


class FormSubject(FormContext, frozen=True, kw_only=True):
    """The subject of a form, with the initial values of its fields."""

    values: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    #: Fields that this user cannot choose; the operation gets their defaults.
    without: Collection[str] = ()
    #: Choices of fields that depend on the subject.
    choices: Mapping[str, Choices] = msgspec.field(default_factory=dict[str, Choices])
    #: Replaces the title of the form, translatable.
    title: str = ""
    #: Fields whose sections are open at first.
    opened: Sequence[str] = ()
    #: Hints of fields that depend on the subject, translatable.
    hints: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


def act_of(
    perform: Callable[[R], Awaitable[Outcome]],
    takes: type[msgspec.Struct],
    words: Words,
    *opaque: str,
    lists: Collection[str] = (),
) -> Act[R]:
    """Return the handler of a form with these fields; the text of `opaque` is not restricted.

    `lists` are texts that have a row for each word.
    """
    repeated = {*lists, *lists_of(takes, words)}
    return Act(perform, {*opaque, *lists, *texts_of(takes, words)}, repeated)


class FieldOptions(Struct, frozen=True, kw_only=True):
    """How fields of a form are drawn and read.

    `choices` are value and label of the choices of a field, by its name, `groups` the title of its
    section, and `states` what the header of that section says of its value.
    `durations` are fields in seconds that are entered as a number and a unit, `spaced` are texts
    that are lists, separated by spaces, `multiline` texts of several lines, `secrets` are not
    shown, and `references` are fields that name other objects.
    """

    choices: Mapping[str, Choices] = msgspec.field(default_factory=dict[str, Choices])
    groups: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    states: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    durations: Collection[str] = ()
    spaced: Collection[str] = ()
    multiline: Collection[str] = ()
    secrets: Collection[str] = ()
    references: References = msgspec.field(default_factory=dict[str, Reference])


class FormFields(FieldOptions, frozen=True):
    """The fields of a form: how they are drawn, and what they are read into."""

    store: Store
    takes: type[msgspec.Struct]
    words: Words
    title: str
    submit: str = SAVE

    def act(self, perform: Callable[[R], Awaitable[Outcome]]) -> Act[R]:
        """Return the handler of the submitted form."""
        opaque = (*self.multiline, *self.secrets)
        return act_of(perform, self.takes, self.words, *opaque, lists=self.spaced)

    async def submitted(
        self, request: VisitorRequest, subject: FormSubject
    ) -> msgspec.Struct | Show:
        """Return the submitted input; the form again for a button of a list, or with faults."""
        form, words = request.form, self.words_for(subject)
        values, grown = typed_again(form, words)
        again = replace(subject, etag=form.get("etag") or "")
        if grown is not None:
            return await self.draw(request, again, values, grown=grown)
        meant, unknown = await resolved(self.store, self.references, values, subject.values)
        if unknown:
            return await self.draw(request, again, values, tuple(unknown))
        texts = {
            name: " ".join(text.split()) if name in self.spaced else text
            for name, text in meant.items()
        }
        try:
            return read_input(self.takes, words, texts)
        except InvalidInput as invalid:
            return await self.draw(request, again, values, invalid.faults)

    def words_for(self, subject: FormSubject) -> Words:
        """Return label and hint of each field that the user can choose."""
        return {
            name: (label, subject.hints.get(name, hint))
            for name, (label, hint) in self.words.items()
            if name not in subject.without
        }

    async def draw(
        self,
        request: VisitorRequest,
        subject: FormSubject,
        values: Mapping[str, str] | None = None,
        faults: Faults = (),
        *,
        stale: bool = False,
        problem: str = "",
        grown: str = "",
        changed: Sequence[str] = (),
    ) -> Show:
        """Show the form; sections with submitted `values` that differ are open.

        `changed` are the labels of fields that another request changed since it was shown.
        """
        texts = subject.values if values is None else values
        offers = await offered(self.store, self.references, texts)

        fields = input_fields(
            self.takes,
            self.words_for(subject),
            texts,
            faults,
            choices={**self.choices, **subject.choices},
            groups=self.groups,
            states=self.states,
            durations=self.durations,
            spaced=self.spaced,
            multiline=self.multiline,
            secrets=self.secrets,
            before=subject.values,
            opened=subject.opened,
            grown=grown,
            offers=offers,
        )
        context = {name: getattr(subject, name) for name in FormContext.__struct_fields__}
        is_elsewhere = faults and not problem and not any(field.faulty for field in fields)
        page = InputFormPage(
            **context,
            action=request.request.path,
            title=subject.title or self.title,
            submit=self.submit,
            fields=fields,
            stale=stale or bool(changed),
            problem=problem,
            changed=tuple(changed),
            error=field_at_fault(faults[0]) if is_elsewhere else None,
        )
        return Show(page, _BAD_REQUEST if faults or page.stale or problem else 200)


class InputForm(FieldOptions, Generic[R, V], frozen=True):
    """The page with the form for the input of an operation, which runs it.

    The segments of `path` are arguments of the operation. `finish` responds to its result, which is
    of the type `output`. A conflict is a fault of the field `conflicts`, or told above the form.
    The others are those of `FormFields`.
    """

    path: str
    requires: Requirement[R]
    actor: Callable[[R], Actor]
    services: Services
    operation: Operation
    output: type[V]
    words: Words
    title: str
    subject: Callable[[R], Awaitable[FormSubject]]
    finish: Callable[[R, V], Awaitable[Outcome]]
    submit: str = SAVE
    conflicts: str = ""

    def page(self) -> Page[R]:
        """Return the page."""
        act = self.fields.act(self.run)
        return Page(self.path, self.requires, self.show_form, act, title=self.title)

    @property
    def fields(self) -> FormFields:
        """The fields of the form."""
        kind = self.operation.input
        if kind is None:
            raise TypeError(f"{self.operation.id} takes no input")
        options = {name: getattr(self, name) for name in FieldOptions.__struct_fields__}
        return FormFields(self.services.store, kind, self.words, self.title, self.submit, **options)

    async def show_form(self, request: R) -> Outcome:
        """Show the form."""
        subject = await self.subject(request)
        return await self.fields.draw(request, subject)

    async def run(self, request: R) -> Outcome:
        """Run the operation, unless its subject was changed since the form was shown."""
        fields, form = self.fields, request.form
        subject, etag = await self.subject(request), form.get("etag") or ""
        body = await fields.submitted(request, subject)
        if isinstance(body, Show):
            return body
        seen = preconditions((etag or '""',), ()) if subject.etag else NO_PRECONDITIONS
        values, again = (
            typed(form, fields.words_for(subject)),
            replace(subject, etag=etag),
        )
        try:
            actor, path = self.actor(request), request.arguments
            call = call_of(self.services, self.operation, actor, request.now, path, body)
            result = await value_of(replace(call, preconditions=seen), self.output)
        except InvalidInput as invalid:
            return await fields.draw(request, again, values, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED:
                return await fields.draw(request, subject, values, stale=True)
            code, text = refused.refusal.code, refused.refusal.text
            if code not in {ErrorCode.CONFLICT, ErrorCode.INVALID_REQUEST}:
                raise
            if self.conflicts and code is ErrorCode.CONFLICT:
                fault = MetadataError(self.conflicts, text)
                return await fields.draw(request, again, values, (fault,))
            return await fields.draw(request, again, values, problem=text)
        return await self.finish(request, result)
