"""The console's buttons and confirmation pages, derived from the table of operations."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import (
    Actor,
    ActorPermissions,
    Permission,
)
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Done,
    InvalidInput,
    Operation,
    Result,
    Services,
    call_of,
)
from valetkey.authorization.operations.roles import NO_ROLE
from valetkey.authorization.operations.table import OPERATIONS
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    actor_of,
    administrator_for,
    page_not_found,
    with_query,
)
from valetkey.authorization.site.admin.input_fields import InputField, field_at_fault
from valetkey.authorization.site.page import (
    Act,
    Download,
    Outcome,
    Page,
    Requirement,
    SeeOther,
    Show,
    VisitorRequest,
)
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment
from valetkey.web.body import Form, read_query
from valetkey.web.exchange import Request

R = TypeVar("R", bound=VisitorRequest)

MISMATCH = translatable("The name does not match. Enter it exactly as shown above.")
UNCHANGED = "unchanged"
"""What `done` is after an operation that found nothing to change."""

NOTHING_CHANGED = translatable("Nothing changed: it was so before.")
_LONGEST = 500
_BAD_REQUEST = 400
_ENDED_BEFORE = frozenset({"admin.secret", "admin.key", "admin.token"})


class Offer(Struct, frozen=True):
    """A button: its slug, its title, the address of its confirmation page and what it does."""

    slug: str
    title: str
    url: str
    danger: bool = False
    text: str = ""


class FieldShown(Struct, frozen=True):
    """A field of the form; one with choices is a list of radio buttons, with hints by value."""

    name: str
    label: str
    choices: tuple[tuple[str, str], ...]
    value: str
    hints: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])


class Impact(Struct, frozen=True):
    """The numbers of objects that an operation ends; None for one that is not counted."""

    sessions: int | None = None
    apps: int | None = None
    people: int | None = None
    authorizations: int | None = None
    #: Members of a group, and the apps and APIs that require it.
    members: int | None = None
    closed_apps: int | None = None
    closed_apis: int | None = None
    #: Names and pages of those apps.
    closed_app_names: tuple[tuple[str, str], ...] = ()
    #: Apps without another owner.
    orphans: int = 0


class Subject(Struct, frozen=True):
    """The subject of an operation: its page, its name, and what distinguishes it from others.

    `above` is the title of that page, and `confirms` what has to be typed, where these are not the
    name. `consequences` are those for this one. `values` and `choices` are those of the fields of
    the form, by name; a field without choices to make is left out.
    """

    address: str
    name: str = ""
    facts: tuple[str, ...] = ()
    ends: Impact = Impact()
    values: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    choices: Mapping[str, Sequence[str]] = msgspec.field(default_factory=dict[str, Sequence[str]])
    above: str = ""
    confirms: str = ""
    consequences: tuple[str, ...] = ()
    #: Why the operation is not possible; there is no button then.
    refused: str = ""
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None


class ConfirmPage(Struct, frozen=True):
    """The confirmation before an operation. Posts `csrf`, the hidden fields and the fields."""

    template: ClassVar[str] = "admin/confirm.html"

    action: str
    back: str
    title: str
    text: str
    #: The subject's name, and what distinguishes it from others.
    name: str
    facts: tuple[str, ...]
    ends: Impact | None = None
    danger: bool = False
    fields: tuple[FieldShown, ...] = ()
    hidden: tuple[tuple[str, str], ...] = ()
    fault: str = ""
    #: The name that has to be typed, if the operation cannot be undone.
    confirms: str = ""
    #: The title of the page above, "" if that is the name; what happens, each a sentence.
    above: str = ""
    consequences: tuple[str, ...] = ()
    #: The template of the area, and the app that its pages are about, if any.
    frame: str = "admin/frame.html"
    app: object = None
    #: What the operation found to be wrong.
    error: InputField | None = None
    #: Why the operation is not possible; there is no form then.
    refused: str = ""


class Confirmed(Struct, frozen=True):
    """A button with its operation, as the path of the request names them."""

    operation: Operation
    button: Button

    def argument(self, form: Form) -> Mapping[str, str]:
        """Return the path arguments that the button decides or carries from this form or query."""
        if self.button.carries is None:
            return self.button.path_arguments
        name, argument = self.button.carries
        return {**self.button.path_arguments, argument: path_segment(form.get(name) or "")}

    def call(self, services: Services, actor: Actor, request: VisitorRequest) -> Call:
        """Return the operation call of the submitted form. Raises Refused for an invalid field."""
        form, path = request.form, request.arguments
        arguments = {name: text for name, text in path.items() if name != "act"}
        arguments |= self.argument(form)
        body = self._body(form)
        return call_of(services, self.operation, actor, request.now, arguments, body)

    def is_unconfirmed(self, form: Form) -> bool:
        """Whether the operation is irreversible and the name that the page shows was not typed."""
        typed, shown = form.get("confirmation") or "", form.get("confirms") or ""
        return self.button.irreversible and (not shown or typed.strip() != shown.strip())

    def page(
        self, request: VisitorRequest, form: Form, subject: Subject, fault: str = ""
    ) -> ConfirmPage:
        """Return the confirmation page."""
        button, carries = self.button, self.button.carries
        return ConfirmPage(
            action=request.request.path,
            back=subject.address,
            title=button.title,
            text=button.text,
            name=subject.name,
            facts=subject.facts,
            ends=subject.ends if button.shows_impact and not subject.refused else None,
            danger=button.danger,
            fields=tuple(self._fields(subject)),
            hidden=() if carries is None else ((carries[0], form.get(carries[0]) or ""),),
            fault="" if subject.refused else fault,
            confirms=(subject.confirms or subject.name) if button.irreversible else "",
            above=subject.above,
            consequences=(*subject.consequences, *button.consequences),
            frame=subject.frame,
            app=subject.app,
            refused=subject.refused,
        )

    def _fields(self, subject: Subject) -> Iterator[FieldShown]:
        for field in self.button.fields:
            offered = subject.choices.get(field.name)
            choices = tuple(it for it in field.choices if offered is None or it[0] in offered)
            if choices or not field.choices:
                value = subject.values.get(field.name, "")
                yield FieldShown(field.name, field.label, choices, value, field.hints)

    def _body(self, form: Form) -> object:
        if self.operation.input is None:
            return None
        values: dict[str, str | None] = {}
        for field in self.button.fields:
            value = (form.get(field.name) or "").strip()[:_LONGEST]
            if field.choices and value not in dict(field.choices):
                raise _invalid()
            values[field.name] = None if field.choices and value in {"", NO_ROLE} else value
        try:
            return msgspec.convert(values, type=self.operation.input, strict=False)
        except msgspec.ValidationError:
            raise _invalid() from None


def _invalid() -> Refused:
    return Refused.because(
        ErrorCode.INVALID_REQUEST, translatable("choose one of the options"), "admin.field"
    )


class Buttons(Struct, frozen=True):
    """The buttons of the operations on one kind of object, by slug."""

    by_slug: Mapping[str, Confirmed]

    @staticmethod
    def below(
        path: str,
        only: Collection[str] | None = None,
        *,
        of: Sequence[Operation] = OPERATIONS,
    ) -> "Buttons":
        """Return the buttons of operations whose path is this one or below it.

        `only` are the slugs of those to return, None for all.
        """
        return Buttons(
            {
                button.slug: Confirmed(operation, button)
                for operation in of
                if operation.path == path or operation.path.startswith(f"{path}/")
                for button in operation.buttons
                if only is None or button.slug in only
            }
        )

    def confirmed(self, request: Request) -> Confirmed:
        """Return the button that the last segment of the path names. Raises Refused (not found)."""
        operation_button = self.by_slug.get(request.path.rpartition("/")[2])
        if operation_button is None:
            raise page_not_found()
        return operation_button

    @property
    def requirement(self) -> Requirement[AdminRequest]:
        """Return the requirement of the operation that the path names."""

        def permission(request: Request) -> Permission:
            return self.confirmed(request).operation.permission

        def returns_to(request: Request) -> str | None:
            confirmed = self.confirmed(request)
            if not confirmed.operation.requires_recent_sign_in:
                return None
            carries = confirmed.button.carries
            if carries is None or request.method == "POST":
                return ""
            value = read_query(request.query).get(carries[0]) or ""
            return with_query(request.path, {carries[0]: value})

        return administrator_for(permission, returns_to)

    def offers(
        self,
        shown: object,
        powers: ActorPermissions,
        address: str,
        about: User | None = None,
    ) -> tuple[Offer, ...]:
        """Return the buttons that apply to this state and that the role allows.

        Dangerous ones are last; of those, one that deletes comes after all that can be undone.
        """
        offers = [
            Offer(slug, it.button.title, f"{address}/{slug}", it.button.danger, it.button.text)
            for slug, it in self.by_slug.items()
            if it.button.shown_for(shown) and powers.allow(it.operation.permission, about)
        ]
        # What is disabled is mostly opened to enable it again: later ones may be in a menu.
        return tuple(
            sorted(offers, key=lambda it: (it.danger, it.slug != "enable", it.slug == "delete"))
        )

    def done(self, slug: str | None, others: Mapping[str, str] | None = None) -> str:
        """Return the message after the operation behind this button; `others` are further ones."""
        if slug == UNCHANGED:
            return NOTHING_CHANGED
        operation_button = self.by_slug.get(slug or "")
        return (
            (others or {}).get(slug or "", "")
            if operation_button is None
            else operation_button.button.done
        )

    def may(self, slug: str, powers: ActorPermissions, about: User | None = None) -> bool:
        """Return whether the role allows the operation of this button."""
        return powers.allow(self.by_slug[slug].operation.permission, about)


def done_word(slug: str, value: object) -> str:
    """Return what `done` is after an operation with this result; `slug` if it changed anything."""
    return UNCHANGED if value == Done(changed=False) else slug


Describe = Callable[[R, Confirmed, Form], Awaitable[Subject]]
"""Looks up what an operation is about."""

Finish = Callable[[R, Confirmed, object], Awaitable[Outcome]]
"""Responds to the result of an operation."""


def done_at(address: str) -> Finish[AdminRequest]:
    """Return the response to any operation: the page at this address, which says it is done."""

    async def finish(_request: AdminRequest, confirmed: Confirmed, _result: object) -> Outcome:
        return SeeOther(f"{address}?done={confirmed.button.slug}")

    return finish


def confirmation(
    path: str,
    buttons: Buttons,
    services: Services,
    subject: Describe[AdminRequest],
    finish: Finish[AdminRequest],
) -> Page[AdminRequest]:
    """Return the page of the console that asks before these operations."""
    requires = buttons.requirement
    return ConfirmationPages(path, requires, actor_of, buttons, services, subject, finish).page()


class ConfirmationPages(Struct, Generic[R], frozen=True):
    """The page that asks before operations on one kind of thing, and runs them.

    `path` ends with the segment `act`, or with the slug of the only button; its other segments are
    arguments of the operations.
    Why an operation is refused is shown on this page.
    """

    path: str
    requires: Requirement[R]
    actor: Callable[[R], Actor]
    buttons: Buttons
    services: Services
    subject: Describe[R]
    finish: Finish[R]

    def page(self) -> Page[R]:
        """Return the page."""
        return Page(self.path, self.requires, self.show_confirmation, Act(self.run))

    async def show_confirmation(self, request: R) -> Outcome:
        """Show the confirmation page."""
        return await self._ask(request, request.query)

    async def run(self, request: R) -> Outcome:
        """Run the operation. A secret that has ended before counts as ended now."""
        confirmed, form = self.buttons.confirmed(request.request), request.form
        if confirmed.is_unconfirmed(form):
            return await self._ask(request, form, MISMATCH)
        try:
            call = confirmed.call(self.services, self.actor(request), request)
            result = await call.operation.run(call)
        except InvalidInput as invalid:
            return await self._ask(request, form, error=invalid.faults[0])
        except Refused as refused:
            refusal = refused.refusal
            if refusal.code in {ErrorCode.CONFLICT, ErrorCode.INVALID_REQUEST}:
                return await self._ask(request, form, refusal.text)
            if refusal.check not in _ENDED_BEFORE:
                raise
            result = Result()
        if result.file is not None:
            return Download(result.file.name, result.file.media, result.file.content)
        button = confirmed.button
        button = replace(button, slug=done_word(button.slug, result.value))
        return await self.finish(request, replace(confirmed, button=button), result.value)

    async def _ask(
        self, request: R, form: Form, fault: str = "", error: MetadataError | None = None
    ) -> Outcome:
        confirmed = self.buttons.confirmed(request.request)
        subject = await self.subject(request, confirmed, form)
        page = confirmed.page(request, form, subject, fault)
        if error is not None:
            page = replace(page, error=field_at_fault(error))
        return Show(page, _BAD_REQUEST if fault or error else 200)
