"""/admin/attributes and /admin/claims: list, declare, change and delete declarations by name."""

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar
from urllib.parse import quote

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission
from valetkey.authorization.claims.operations import ATTRIBUTES as OF_ATTRIBUTES
from valetkey.authorization.claims.operations import CLAIMS as OF_CLAIMS
from valetkey.authorization.claims.operations import (
    DECLARE_ATTRIBUTE,
    DECLARE_CLAIM,
    LIST_ATTRIBUTES,
    LIST_CLAIMS,
    AttributeList,
    AttributeShown,
    AttributeWanted,
    ClaimList,
    ClaimShown,
    ClaimWanted,
)
from valetkey.authorization.operations.operation import (
    Call,
    InvalidInput,
    Operation,
    Services,
    call_of,
    tag_of,
    value_of,
)
from valetkey.authorization.protocol.register.faults import input_fault, reason_of
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    PEOPLE,
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.input_fields import (
    Faults,
    InputField,
    Words,
    as_text,
    input_fields,
    read_input,
    typed_again,
)
from valetkey.authorization.site.admin.input_form import InputFormPage, act_of
from valetkey.authorization.site.admin.references import (
    APPS,
    References,
    apis,
    offered,
    resolved,
)
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.kernel.preconditions import FAILED, Preconditions, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.web.body import Form

ATTRIBUTES = "/admin/attributes"
CLAIMS = "/admin/claims"
PREVIEW = "/admin/claims/preview"

Shown = AttributeShown | ClaimShown
Row = tuple[tuple[str | tuple[str, ...], ...], str]
"""The cells of a declaration in the list, and its hint."""


class ListText(Struct, frozen=True):
    """The translatable texts of the pages about one kind of declaration."""

    title: str
    text: str
    columns: tuple[str, ...]
    new: str
    create: str
    edit: str
    empty_title: str
    empty_text: str
    #: Hint of the field for the name.
    name: str


_ATTRIBUTE_TEXTS = ListText(
    translatable("Attributes"),
    translatable(
        "Attributes are custom fields of user accounts, such as a department. They appear in "
        "profiles, imports and directories; a claim puts them into tokens."
    ),
    (translatable("Attribute"), translatable("Values"), translatable("Edited by")),
    translatable("New attribute"),
    translatable("Create attribute"),
    translatable("Edit attribute"),
    translatable("No attributes yet"),
    translatable("Create one for what you need to know about users besides name and email."),
    translatable("A letter, then letters, digits and underscores. It cannot be changed later."),
)
_ATTRIBUTE_WORDS: Words = {
    "label": (
        translatable("Label"),
        translatable("The name shown on pages. Leave empty to use the attribute's name."),
    ),
    "schema": (
        translatable("JSON Schema of its values"),
        translatable(
            'For example {"type": "string", "maxLength": 40}, or {} for any value. Existing '
            "values are kept, and checked when they are next changed."
        ),
    ),
    "editable": (
        translatable("Users can edit their own value"),
        translatable("Only for strings, numbers and booleans."),
    ),
}
_CLAIM_TEXTS = ListText(
    translatable("Claims"),
    translatable("Declared claims add data about users to tokens, without code."),
    (translatable("Claim"), translatable("Source"), translatable("In"), translatable("Only for")),
    translatable("New claim"),
    translatable("Create claim"),
    translatable("Edit claim"),
    translatable("No claims yet"),
    translatable("Create one to pass groups, roles or attributes of users to apps and APIs."),
    translatable(
        "The name in the token: a word such as department, or a URL. It cannot be changed later."
    ),
)
_CLAIM_WORDS: Words = {
    "from": (translatable("Source"), ""),
    "in": (translatable("Include in"), ""),
    "scope": (
        translatable("Scope"),
        translatable("Only tokens with this scope have it. Leave empty for every token."),
    ),
    "clients": (
        translatable("Apps"),
        translatable("Names or client IDs. Leave empty for every app."),
    ),
    "apis": (
        translatable("APIs"),
        translatable("Names or identifiers. Leave empty for every API."),
    ),
}
SOURCES = (
    ("groups", translatable("Groups of the user")),
    ("groups:", translatable("Groups whose names begin with the text below")),
    ("roles", translatable("Roles at the API of the token")),
    ("roles:", translatable("Roles at the API whose identifier is below")),
    ("email_domain", translatable("Domain of the email address")),
    ("username", translatable("Username, for introspection")),
    ("email", translatable("Verified email address, for introspection")),
    ("constant:", translatable("The text below, for all users")),
    ("upstream:", translatable("Stored claim of a sign-in provider, such as google:hd below")),
)
PLACE_WORDS = {
    "id_token": translatable("ID token"),
    "userinfo": translatable("Userinfo response"),
    "access_token": translatable("Access token"),
    "introspection": translatable("Introspection response"),
}


class Kind(Struct, frozen=True):
    """One kind of declaration: its operations, its texts, and how it is shown and read."""

    place: str
    #: The heading of the navigation above it.
    section: str
    argument: str
    operations: tuple[Operation, ...]
    wanted: type[AttributeWanted] | type[ClaimWanted]
    lists: Operation
    list_type: type[AttributeList] | type[ClaimList]
    declares: Operation
    texts: ListText
    words: Words
    row: Callable[[Shown], Row]
    links: tuple[tuple[str, str], ...]

    def address(self, name: str, act: str) -> str:
        """Return the address of a page about the declaration with this name."""
        return f"{self.place}/{quote(name, safe='')}/{act}"


def _attribute_row(item: Shown) -> Row:
    if not isinstance(item, AttributeShown):
        raise TypeError(item)
    kind = item.schema.get("type")
    values = kind if isinstance(kind, str) else "JSON"
    editors = translatable("users and administrators")
    return (
        values,
        editors if item.editable else translatable("administrators"),
    ), item.label


def _claim_row(item: Shown) -> Row:
    if not isinstance(item, ClaimShown):
        raise TypeError(item)
    only = [f"scope {item.scope}"] if item.scope else []
    narrowed = ", ".join([*only, *item.clients, *item.apis])
    places = tuple(PLACE_WORDS[place.value] for place in item.places)
    return (item.source, places, narrowed), ""


KINDS = (
    Kind(
        ATTRIBUTES,
        PEOPLE,
        "attribute",
        OF_ATTRIBUTES,
        AttributeWanted,
        LIST_ATTRIBUTES,
        AttributeList,
        DECLARE_ATTRIBUTE,
        _ATTRIBUTE_TEXTS,
        _ATTRIBUTE_WORDS,
        _attribute_row,
        (),
    ),
    Kind(
        CLAIMS,
        APPS_AND_APIS,
        "claim",
        OF_CLAIMS,
        ClaimWanted,
        LIST_CLAIMS,
        ClaimList,
        DECLARE_CLAIM,
        _CLAIM_TEXTS,
        _CLAIM_WORDS,
        _claim_row,
        ((translatable("Preview tokens"), PREVIEW),),
    ),
)


class ListRow(Struct, frozen=True):
    """One row: a name, the page to edit it ("" for none), a cell per column, and its buttons.

    `ways` are title and address of what can be done with it.
    """

    name: str
    url: str
    #: A cell may be several words, each of them translatable.
    cells: tuple[str | tuple[str, ...], ...]
    hint: str = ""
    ways: tuple[tuple[str, str], ...] = ()


class ListPage(Struct, frozen=True):
    """A list. Texts are translatable, names and cells are not.

    `links` are titles and addresses of pages that belong to it; `ways` are the row's last cell.
    """

    template: ClassVar[str] = "claims/pages/declarations.html"

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[ListRow, ...]
    new_title: str
    #: "" where the role may not.
    new_url: str
    empty_title: str
    empty_text: str
    links: tuple[tuple[str, str], ...] = ()
    done: str = ""


_NAME = "name"
_ARGUMENT = "argument"
_BAD_REQUEST = 400
_LONGEST = 250
_DONE = {"saved": translatable("Saved.")}


class DeclarationPages(Struct, frozen=True):
    """List declarations of one kind; create, edit and delete one."""

    services: Services
    kind: Kind

    @property
    def _buttons(self) -> Buttons:
        return Buttons.below(self.kind.declares.path, of=self.kind.operations)

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the forms and the confirmation."""
        kind, texts = self.kind, self.kind.texts
        below = f"{kind.place}/{{{kind.argument}}}"
        may = administrator(Permission.CLIENTS)
        create = act_of(self.create, kind.wanted, kind.words)
        change = act_of(self.change, kind.wanted, kind.words)
        return (
            Page(
                kind.place,
                administrator(),
                self.show,
                title=texts.title,
                nav=kind.section,
                docs="how-to/people/groups.html",
            ),
            Page(f"{kind.place}/new", may, self.show_form, create, title=texts.new),
            Page(f"{below}/edit", may, self.edit, change, title=texts.edit),
            confirmation(
                f"{below}/{{act}}",
                self._buttons,
                self.services,
                self._subject,
                done_at(kind.place),
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the list of declarations."""
        kind, texts = self.kind, self.kind.texts
        may = request.permissions.allow(Permission.CLIENTS)
        page = ListPage(
            title=texts.title,
            text=texts.text,
            columns=texts.columns,
            rows=tuple(self._row(each, may=may) for each in await self._declared(request)),
            new_title=texts.new,
            new_url=f"{kind.place}/new" if may else "",
            empty_title=texts.empty_title,
            empty_text=texts.empty_text,
            links=kind.links,
            done=self._buttons.done(request.query.get("done"), _DONE),
        )
        return Show(page)

    async def show_form(self, request: AdminRequest) -> Outcome:
        """Show the form for a new declaration."""
        return await self._form(request, None, {})

    async def create(self, request: AdminRequest) -> Outcome:
        """Create the declaration, unless its name is taken."""
        name = (request.form.get(_NAME) or "").strip()[:_LONGEST]
        return await self._save(request, None, name, preconditions((), ("*",)))

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with a declaration."""
        item = await self._named(request)
        return await self._form(request, item, self._values(item), tag=tag_of(item))

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the declaration, unless it was changed since the form was shown."""
        item = await self._named(request)
        seen = preconditions((request.form.get("etag") or '""',), ())
        return await self._save(request, item, item.name, seen)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        item = await self._named(request)
        cells = self.kind.row(item)[0]
        facts = tuple(each for each in cells if isinstance(each, str) and each)
        return Subject(self.kind.place, item.name, facts, above=self.kind.texts.title)

    async def _save(
        self, request: AdminRequest, item: Shown | None, name: str, seen: Preconditions
    ) -> Outcome:
        kind, form = self.kind, _with_source(request.form)
        again, grown = typed_again(form, kind.words)
        values = {_NAME: name, **again, _ARGUMENT: request.form.get(_ARGUMENT) or ""}
        tag = form.get("etag") or ""
        if grown is not None:
            return await self._form(request, item, values, tag=tag, grown=grown)
        kept: Mapping[str, str] = {} if item is None else self._values(item)
        meant, unknown = await resolved(self.services.store, self._references, again, kept)
        if unknown:
            return await self._form(request, item, values, tuple(unknown), tag=tag)
        try:
            body = read_input(kind.wanted, kind.words, meant)
            path = {kind.argument: quote(name, safe="")}
            call = call_of(self.services, kind.declares, request.actor, request.now, path, body)
            await kind.declares.run(replace(call, preconditions=seen))
        except InvalidInput as invalid:
            return await self._form(request, item, values, invalid.faults, tag=tag)
        except Refused as refused:
            if refused.refusal is FAILED and item is not None:
                return await self._form(request, item, values, tag=tag_of(item), stale=True)
            if refused.refusal is not FAILED and refused.refusal.check != "admin_api.name":
                raise
            taken = input_fault(_NAME, "name.unusable")
            return await self._form(request, item, values, (taken,))
        return SeeOther(f"{kind.place}?done=saved")

    async def _form(
        self,
        request: AdminRequest,
        item: Shown | None,
        values: Mapping[str, str],
        faults: Faults = (),
        *,
        tag: str = "",
        stale: bool = False,
        grown: str = "",
    ) -> Outcome:
        kind, texts = self.kind, self.kind.texts
        fields = list[InputField]()
        wrong = {fault.field: fault for fault in faults}
        if item is None:
            name = values.get(_NAME, "")
            label = translatable("Name")
            fault = wrong.get(_NAME)
            fields.append(
                InputField(
                    _NAME,
                    label,
                    texts.name,
                    "text",
                    name,
                    required=True,
                    faulty=fault is not None,
                    fault=fault.detail if fault else "",
                    must=reason_of(fault) if fault else None,
                )
            )
        offers = await offered(self.services.store, self._references, values)
        for field in input_fields(
            kind.wanted, kind.words, values, faults, grown=grown, offers=offers
        ):
            match field.name:
                case "from":
                    fields += await self._source(request, field, values)
                case "in":
                    fields.append(replace(field, choices=tuple(PLACE_WORDS.items())))
                case _:
                    fields.append(field)
        page = InputFormPage(
            action=f"{kind.place}/new" if item is None else kind.address(item.name, "edit"),
            back=kind.place,
            above=texts.title,
            title=texts.new if item is None else texts.edit,
            submit=texts.create if item is None else translatable("Save changes"),
            fields=tuple(fields),
            etag=tag,
            stale=stale,
        )
        return Show(page, _BAD_REQUEST if faults or stale else 200)

    async def _source(
        self, request: AdminRequest, field: InputField, values: Mapping[str, str]
    ) -> Sequence[InputField]:
        """Return the menu of sources, and the text field that some of them need."""
        call = call_of(self.services, LIST_ATTRIBUTES, request.actor, request.now)
        attributes = (await value_of(call, AttributeList)).items
        kinds = dict(SOURCES)
        kind, colon, argument = field.value.partition(":")
        chosen = field.value
        if f"{kind}{colon}" in kinds:
            chosen = f"{kind}{colon}"
        else:
            argument = values.get(_ARGUMENT, "")
        choices = tuple((f"attribute:{it.name}", f"attribute:{it.name}") for it in attributes)
        choices += SOURCES
        if chosen and chosen not in dict(choices):
            choices += ((chosen, chosen),)
        menu = replace(field, kind="choice", value=chosen, choices=choices, required=True)
        text = InputField(
            _ARGUMENT,
            translatable("Text"),
            translatable("Only for sources that need it: a prefix, an identifier or a fixed text."),
            "text",
            argument if colon or not field.value else "",
            required=False,
        )
        return menu, text

    def _values(self, item: Shown) -> Mapping[str, str]:
        record = msgspec.to_builtins(item)
        return {name: self._text(record[name]) for name in self.kind.words}

    @property
    def _references(self) -> References:
        """Return the references of its fields."""
        known = {"clients": APPS, "apis": apis(self.services.claims.default.identifier)}
        return {name: each for name, each in known.items() if name in self.kind.words}

    @staticmethod
    def _text(value: object) -> str:
        if isinstance(value, dict):
            return msgspec.json.format(msgspec.json.encode(value)).decode()
        return as_text(value)

    def _row(self, item: Shown, *, may: bool) -> ListRow:
        cells, hint = self.kind.row(item)
        deletes = (translatable("Delete"), self.kind.address(item.name, "delete"))
        edit = self.kind.address(item.name, "edit") if may else ""
        return ListRow(item.name, edit, cells, hint, (deletes,) if may else ())

    async def _declared(self, request: AdminRequest) -> Sequence[Shown]:
        kind = self.kind
        call = call_of(self.services, kind.lists, request.actor, request.now)
        return (await value_of(call, kind.list_type)).items

    async def _named(self, request: AdminRequest) -> Shown:
        path = {self.kind.argument: request.arguments[self.kind.argument]}
        call: Call = call_of(self.services, self.kind.lists, request.actor, request.now, path)
        name = call.named(self.kind.argument)
        found = next((each for each in await self._declared(request) if each.name == name), None)
        if found is None:
            raise page_not_found()
        return found


def _with_source(form: Form) -> Form:
    """Return the form with the chosen source and its text joined by a colon."""
    source = form.get("from") or ""
    if not source.endswith(":"):
        return form
    source += (form.get(_ARGUMENT) or "").strip()
    first = {name: form.get(name) or "" for name in form.names}
    more = {name: form.all(name) for name in form.names if len(form.all(name)) > 1}
    return Form({**first, "from": source}, more)


def declaration_pages(services: Services) -> tuple[Page[AdminRequest], ...]:
    """Return the pages of both kinds."""
    return tuple(page for kind in KINDS for page in DeclarationPages(services, kind).pages())
