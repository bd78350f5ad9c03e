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
from valetkey.authorization.site.admin.input_fields import (
    Choices,
    Faults,
    InputField,
    Words,
    input_fields,
    lists_of,
    read_input,
    texts_of,
    typed,
    typed_again,
)
from valetkey.authorization.site.admin.references import Reference, References, offered, resolved
from valetkey.authorization.site.page import Act, Outcome, Page, Requirement, Show, VisitorRequest
from valetkey.kernel.preconditions import FAILED, NO_PRECONDITIONS, preconditions
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable

R = TypeVar("R", bound=VisitorRequest)
V = TypeVar("V")

ON_TOP = "*"
"""As the field of conflicts: they are shown above the form."""

_BAD_REQUEST = 400


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
    #: Why the operation was refused, translatable, if no field is at fault.
    problem: str = ""
    #: What is to be known before the change, translatable.
    note: str = ""
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None
    #: Further values that the form posts, by name.
    hidden: tuple[tuple[str, str], ...] = ()


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
    #: Fields that this user cannot choose; the operation gets their defaults.
    without: Collection[str] = ()
    #: What is to be known before the change, translatable.
    note: str = ""
    #: Choices of fields that depend on the subject.
    choices: Mapping[str, Choices] = msgspec.field(default_factory=dict[str, Choices])
    #: Replaces the title of the form, translatable.
    title: str = ""
    #: Further values that the form posts, by name.
    hidden: Sequence[tuple[str, str]] = ()
    #: Fields whose sections are open at first.
    opened: Sequence[str] = ()


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


class InputForm(Struct, Generic[R, V], frozen=True):
    """The page with the form for the input of an operation, which runs it.

    The segments of `path` are arguments of the operation. `finish` responds to its result, which is
    of the type `output`. A conflict is a fault of the field `conflicts`, or an error page for "".
    `choices` are value and label of the choices of a field, by its name, `groups` the title of its
    section, and `states` what the header of that section says of its value.
    `durations` are fields in seconds that are entered as a number and a unit, `spaced` are texts
    that are lists, separated by spaces, `multiline` texts of several lines, and `references` fields
    that name other objects.
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
    submit: str = translatable("Save changes")
    conflicts: str = ""
    choices: Mapping[str, Choices] = msgspec.field(default_factory=dict[str, Choices])
    groups: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    states: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    durations: Collection[str] = ()
    spaced: Collection[str] = ()
    multiline: Collection[str] = ()
    references: References = msgspec.field(default_factory=dict[str, Reference])

    def page(self) -> Page[R]:
        """Return the page."""
        act = act_of(self.run, self._takes, self.words, *self.multiline, lists=self.spaced)
        return Page(self.path, self.requires, self.show_form, act, title=self.title)

    async def show_form(self, request: R) -> Outcome:
        """Show the form."""
        subject = await self.subject(request)
        return await self.draw(request, subject)

    async def run(self, request: R) -> Outcome:
        """Run the operation, unless its subject was changed since the form was shown."""
        subject, etag = await self.subject(request), request.form.get("etag") or ""
        body = await self.submitted(request, subject)
        if isinstance(body, Show):
            return body
        seen = preconditions((etag or '""',), ()) if subject.etag else NO_PRECONDITIONS
        values, again = typed(request.form, self._words(subject)), replace(subject, etag=etag)
        try:
            actor, path = self.actor(request), request.arguments
            call = call_of(self.services, self.operation, actor, request.now, path, body)
            result = await value_of(replace(call, preconditions=seen), self.output)
        except InvalidInput as invalid:
            return await self.draw(request, again, values, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED:
                return await self.draw(request, subject, values, stale=True)
            if not self.conflicts or refused.refusal.code is not ErrorCode.CONFLICT:
                raise
            if self.conflicts == ON_TOP:
                return await self.draw(request, again, values, problem=refused.refusal.description)
            fault = MetadataError(self.conflicts, refused.refusal.description)
            return await self.draw(request, again, values, (fault,))
        return await self.finish(request, result)

    async def submitted(self, request: R, subject: FormSubject) -> msgspec.Struct | Show:
        """Return the submitted input; the form again for a button of a list, or with faults."""
        form, words = request.form, self._words(subject)
        values, grown = typed_again(form, words)
        again = replace(subject, etag=form.get("etag") or "")
        if grown is not None:
            return await self.draw(request, again, values, grown=grown)
        store = self.services.store
        meant, unknown = await resolved(store, self.references, values, subject.values)
        if unknown:
            return await self.draw(request, again, values, tuple(unknown))
        texts = {
            name: " ".join(text.split()) if name in self.spaced else text
            for name, text in meant.items()
        }
        try:
            return read_input(self._takes, words, texts)
        except InvalidInput as invalid:
            return await self.draw(request, again, values, invalid.faults)

    def _words(self, subject: FormSubject) -> Words:
        return {name: text for name, text in self.words.items() if name not in subject.without}

    @property
    def _takes(self) -> type[msgspec.Struct]:
        kind = self.operation.input
        if kind is None:
            raise TypeError(f"{self.operation.id} takes no input")
        return kind

    async def draw(
        self,
        request: R,
        subject: FormSubject,
        values: Mapping[str, str] | None = None,
        faults: Faults = (),
        *,
        stale: bool = False,
        problem: str = "",
        grown: str = "",
    ) -> Show:
        """Show the form; sections with submitted `values` that differ are open."""
        texts = subject.values if values is None else values
        offers = await offered(self.services.store, self.references, texts)

        def drawn(texts: Mapping[str, str], opened: Collection[str] = ()) -> tuple[InputField, ...]:
            return input_fields(
                self._takes,
                self._words(subject),
                texts,
                faults,
                choices={**self.choices, **subject.choices},
                groups=self.groups,
                states=self.states,
                durations=self.durations,
                spaced=self.spaced,
                multiline=self.multiline,
                opened=opened,
                grown=grown,
                offers=offers,
            )

        before = {(each.name, each.value, each.unit) for each in drawn(subject.values)}
        fields = drawn(texts)
        opened = [it.name for it in fields if (it.name, it.value, it.unit) not in before]
        opened += subject.opened
        if faults and not problem and not any(each.faulty for each in fields):
            # About a field that this form does not have.
            problem = f"{faults[0].field}: {faults[0].detail}"
        fields = drawn(texts, opened) if opened else fields
        page = InputFormPage(
            action=request.request.path,
            back=subject.back,
            above=subject.above,
            title=subject.title or self.title,
            submit=self.submit,
            fields=fields,
            etag=subject.etag,
            stale=stale,
            problem=problem,
            note=subject.note,
            frame=subject.frame,
            app=subject.app,
            hidden=tuple(subject.hidden),
        )
        return Show(page, _BAD_REQUEST if faults or stale or problem else 200)
