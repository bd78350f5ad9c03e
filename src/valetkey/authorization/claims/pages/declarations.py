"""/admin/attributes and /admin/claims: list, show, declare, change and delete declarations."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache

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
from valetkey.authorization.protocol.register.faults import input_fault
from valetkey.authorization.site.admin.administrator import (
    APPS_AND_APIS,
    PEOPLE,
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.clients.clients import client_address
from valetkey.authorization.site.admin.confirm import (
    Buttons,
    Confirmed,
    Subject,
    confirmation,
    done_at,
)
from valetkey.authorization.site.admin.input_fields import (
    Choices,
    Words,
    as_text,
    read_input,
    typed,
)
from valetkey.authorization.site.admin.input_form import SAVE, FormFields, FormSubject
from valetkey.authorization.site.admin.object_page import (
    Fact,
    ObjectPage,
    Related,
    facts,
    read_activity,
)
from valetkey.authorization.site.admin.objects import (
    Line,
    ListDeclaration,
    ListWords,
    Part,
    Row,
    code,
    text,
    unsorted,
    words,
)
from valetkey.authorization.site.admin.references import (
    APPS,
    References,
    apis,
    offered,
)
from valetkey.authorization.site.page import Outcome, Page, SeeOther, Show
from valetkey.kernel.preconditions import FAILED, Preconditions, preconditions
from valetkey.kernel.refusal import Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment
from valetkey.web.body import Form

ATTRIBUTES = "/admin/attributes"
CLAIMS = "/admin/claims"
PREVIEW = "/admin/claims/preview"

Shown = AttributeShown | ClaimShown


class FormText(Struct, frozen=True):
    """The translatable texts of the form of one kind of declaration, and the hint of the name."""

    create: str
    edit: str
    name: str


_LONGEST = 250


def _list(address: str, words: ListWords, *columns: str) -> ListDeclaration:
    return ListDeclaration(
        address,
        words,
        unsorted(*columns),
        longest=_LONGEST,
        new_url=f"{address}/new",
        permission=Permission.CLIENTS,
    )


_ATTRIBUTE_LIST = _list(
    ATTRIBUTES,
    ListWords(
        caption=translatable("Attributes"),
        new=translatable("New attribute"),
        none_found=translatable("No attribute found"),
        show_all=translatable("Show all attributes"),
        empty_title=translatable("No attributes yet"),
        empty_text=translatable(
            "Create one for what you need to know about users besides name and email."
        ),
        search_hint=translatable("Part of the name."),
        lead=translatable(
            "Attributes are custom fields of user accounts, such as a department. They appear in "
            "profiles, imports and directories; a claim puts them into tokens."
        ),
    ),
    translatable("Attribute"),
    translatable("Values"),
    translatable("Edited by"),
)
_ATTRIBUTE_TEXTS = FormText(
    translatable("Create attribute"),
    translatable("Edit attribute"),
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
_CLAIM_LIST = _list(
    CLAIMS,
    ListWords(
        caption=translatable("Claims"),
        new=translatable("New claim"),
        none_found=translatable("No claim found"),
        show_all=translatable("Show all claims"),
        empty_title=translatable("No claims yet"),
        empty_text=translatable(
            "Create one to pass groups, roles or attributes of users to apps and APIs."
        ),
        search_hint=translatable("Part of the name."),
        lead=translatable("Declared claims add data about users to tokens, without code."),
    ),
    translatable("Claim"),
    translatable("Source"),
    translatable("In"),
    translatable("Only for"),
)
_CLAIM_TEXTS = FormText(
    translatable("Create claim"),
    translatable("Edit claim"),
    translatable(
        "The name in the token: a word such as department, or a URL. It cannot be changed later."
    ),
)
_CLAIM_WORDS: Words = {
    "from": (translatable("Source"), ""),
    "argument": (
        translatable("Text"),
        translatable("Only for sources that need it: a prefix, an identifier or a fixed text."),
    ),
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


_ARGUED = {
    "attribute:": translatable("Attribute %(text)s"),
    "groups:": translatable("Groups whose names begin with %(text)s"),
    "roles:": translatable("Roles at the API %(text)s"),
    "constant:": translatable("The text %(text)s, for all users"),
    "upstream:": translatable("Stored claim %(text)s of a sign-in provider"),
}
"""Sources with a text, in words."""


class ClaimForm(ClaimWanted, frozen=True, kw_only=True):
    """The form of a claim: the text of a source that ends with a colon is a field of its own."""

    argument: str = ""


Names = Mapping[str, Mapping[str, str]]
"""The names of the apps and APIs of a claim, by the field that refers to them and its value."""


class Kind(Struct, frozen=True):
    """One kind of declaration: its operations, its texts, and how it is shown and read."""

    path: str
    #: The heading of the navigation above it.
    section: str
    argument: str
    operations: tuple[Operation, ...]
    input: type[AttributeWanted] | type[ClaimWanted]
    #: The fields of the form.
    takes: type[AttributeWanted] | type[ClaimForm]
    lists: Operation
    list_type: type[AttributeList] | type[ClaimList]
    declares: Operation
    listed: ListDeclaration
    texts: FormText
    words: Words
    row: Callable[[Shown], Row]
    facts: Callable[[Shown, Names], tuple[Fact, ...]]
    links: tuple[tuple[str, str, str], ...] = ()

    @property
    def title(self) -> str:
        """Return the title of the list, translatable."""
        return self.listed.words.caption


def address_of(list_address: str, name: str) -> str:
    """Return the address of the page about a declaration."""
    return f"{list_address}/{path_segment(name)}"


def _schema_type(item: AttributeShown) -> Part:
    kind = item.schema.get("type")
    return code(kind if isinstance(kind, str) else "JSON")


def _editors(item: AttributeShown) -> Part:
    if item.editable:
        return words(translatable("users and administrators"))
    return words(translatable("administrators"))


def _attribute_row(item: Shown) -> Row:
    if not isinstance(item, AttributeShown):
        raise TypeError(item)
    return Row(
        item.name,
        item.name,
        address_of(ATTRIBUTES, item.name),
        ((_schema_type(item),), (_editors(item),)),
        (text(item.label),) if item.label else (),
    )


def _attribute_facts(item: Shown, _names: Names) -> tuple[Fact, ...]:
    if not isinstance(item, AttributeShown):
        raise TypeError(item)
    return facts(
        (
            (_ATTRIBUTE_WORDS["label"][0], text(item.label)),
            (translatable("Values"), _schema_type(item)),
            (translatable("Edited by"), _editors(item)),
            (
                _ATTRIBUTE_WORDS["schema"][0],
                code(msgspec.json.encode(item.schema).decode()) if item.schema else None,
            ),
        )
    )


def _source(source: str) -> Part:
    kind, colon, argument = source.partition(":")
    if not colon:
        return words(dict(SOURCES).get(source, source), source)
    url = address_of(ATTRIBUTES, argument) if kind == "attribute" else ""
    return words(_ARGUED[f"{kind}:"], url=url, text=argument)


def _places(item: ClaimShown) -> tuple[Part, ...]:
    return tuple(words(PLACE_WORDS[location.value]) for location in item.places)


def _claim_row(item: Shown) -> Row:
    if not isinstance(item, ClaimShown):
        raise TypeError(item)
    only = (*([item.scope] if item.scope else []), *item.clients, *item.apis)
    cells = (
        (_source(item.source),),
        _places(item),
        tuple(code(restriction) for restriction in only),
    )
    return Row(item.name, item.name, address_of(CLAIMS, item.name), cells)


def _claim_facts(item: Shown, names: Names) -> tuple[Fact, ...]:
    if not isinstance(item, ClaimShown):
        raise TypeError(item)
    apps = tuple(
        text(names["clients"].get(client_id) or client_id, client_address(client_id))
        for client_id in item.clients
    )
    apis = tuple(
        Part("text", names["apis"].get(identifier, ""), small=identifier)
        for identifier in item.apis
    )
    scope = code(item.scope) if item.scope else words(translatable("every token"))
    return (
        Fact(translatable("Source"), (_source(item.source),)),
        Fact(_CLAIM_WORDS["in"][0], _places(item)),
        Fact(translatable("Scope"), (scope,)),
        Fact(translatable("Apps"), apps or (words(translatable("every app")),)),
        Fact(translatable("APIs"), apis or (words(translatable("every API")),)),
    )


KINDS = (
    Kind(
        ATTRIBUTES,
        PEOPLE,
        "attribute",
        OF_ATTRIBUTES,
        AttributeWanted,
        AttributeWanted,
        LIST_ATTRIBUTES,
        AttributeList,
        DECLARE_ATTRIBUTE,
        _ATTRIBUTE_LIST,
        _ATTRIBUTE_TEXTS,
        _ATTRIBUTE_WORDS,
        _attribute_row,
        _attribute_facts,
    ),
    Kind(
        CLAIMS,
        APPS_AND_APIS,
        "claim",
        OF_CLAIMS,
        ClaimWanted,
        ClaimForm,
        LIST_CLAIMS,
        ClaimList,
        DECLARE_CLAIM,
        _CLAIM_LIST,
        _CLAIM_TEXTS,
        _CLAIM_WORDS,
        _claim_row,
        _claim_facts,
        (("preview", translatable("Preview tokens"), PREVIEW),),
    ),
)


_NAME = "name"
_DONE = {"saved": translatable("Saved.")}


class DeclarationPages(Struct, frozen=True):
    """List declarations of one kind; create, edit and delete one."""

    services: Services
    kind: Kind

    @property
    def _buttons(self) -> Buttons:
        return Buttons.below(self.kind.declares.path, of=self.kind.operations)

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the list, the forms, a declaration and the confirmation."""
        kind = self.kind
        below = f"{kind.path}/{{{kind.argument}}}"
        may = administrator(Permission.CLIENTS)
        create = self._fields(new=True).act(self.create)
        change = self._fields(new=False).act(self.change)
        return (
            Page(
                kind.path,
                administrator(),
                self.show,
                title=kind.title,
                nav=kind.section,
                docs="how-to/people/groups.html",
            ),
            Page(f"{kind.path}/new", may, self.show_form, create, title=kind.listed.words.new),
            Page(below, administrator(), self.show_one),
            Page(f"{below}/edit", may, self.edit, change, title=kind.texts.edit),
            confirmation(
                f"{below}/{{act}}",
                self._buttons,
                self.services,
                self._subject,
                done_at(kind.path),
            ),
        )

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the declarations with the text in their name."""
        listed, items = self.kind.listed, await self._declared(request)
        query = listed.read(request)
        rows = [self.kind.row(it) for it in items if query.text.lower() in it.name.lower()]
        done = self._buttons.done(query.query.get("done"))
        return Show(listed.page(request, query, rows, done=done, links=self.kind.links))

    async def show_one(self, request: AdminRequest) -> Outcome:
        """Show a declaration."""
        kind, item = self.kind, await self._named(request)
        address, may = address_of(kind.path, item.name), request.permissions.allow
        offers = await offered(self.services.store, self._references, self._values(item))
        edit = (("edit", kind.texts.edit, f"{address}/edit"),) if may(Permission.CLIENTS) else ()
        page = ObjectPage(
            kind.path,
            kind.title,
            item.name,
            done=self._buttons.done(request.query.get("done"), _DONE),
            facts=kind.facts(item, {name: offer.names for name, offer in offers.items()}),
            links=edit,
            actions=self._buttons.offers(item, request.permissions, address),
            related=await self._users(request, item),
            activity=await read_activity(self.services, request, f"{kind.argument}:{item.name}"),
        )
        return Show(page)

    async def show_form(self, request: AdminRequest) -> Outcome:
        """Show the form for a new declaration."""
        return await self._fields(new=True).draw(request, await self._form(request, None))

    async def create(self, request: AdminRequest) -> Outcome:
        """Create the declaration, unless its name is taken."""
        return await self._save(request, None, preconditions((), ("*",)))

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with a declaration."""
        subject = await self._form(request, await self._named(request))
        return await self._fields(new=False).draw(request, subject)

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the declaration, unless it was changed since the form was shown."""
        item = await self._named(request)
        seen = preconditions((request.form.get("etag") or '""',), ())
        return await self._save(request, item, seen)

    async def _subject(self, request: AdminRequest, _confirmed: Confirmed, _form: Form) -> Subject:
        item = await self._named(request)
        return Subject(address_of(self.kind.path, item.name), item.name)

    async def _users(self, request: AdminRequest, item: Shown) -> tuple[Related, ...]:
        """Return the claims whose source is this attribute."""
        if not isinstance(item, AttributeShown):
            return ()
        call = call_of(self.services, LIST_CLAIMS, request.actor, request.now)
        claims = (await value_of(call, ClaimList)).items
        lines = tuple(
            Line(text(it.name, address_of(CLAIMS, it.name)), below=_places(it))
            for it in claims
            if it.source == f"attribute:{item.name}"
        )
        none = translatable("No claim puts it into tokens.")
        return (Related("claims", translatable("Claims"), lines, none),)

    def _fields(self, *, new: bool) -> FormFields:
        """Return the form; a new declaration has a name."""
        kind, words = self.kind, self.kind.words
        takes: type[Struct] = kind.takes
        if new:
            takes = _with_name(takes)
            words = {_NAME: (translatable("Name"), kind.texts.name), **words}
        return FormFields(
            self.services.store,
            takes,
            words,
            kind.listed.words.new if new else kind.texts.edit,
            kind.texts.create if new else SAVE,
            choices={"in": tuple(PLACE_WORDS.items())},
            references=self._references,
        )

    async def _form(self, request: AdminRequest, item: Shown | None) -> FormSubject:
        """Return the declaration that the form changes, None for a new one."""
        kind = self.kind
        values: Mapping[str, str] = {} if item is None else self._values(item)
        chosen = request.form.get("from") or values.get("from", "")
        choices = {"from": await self._sources(request, chosen)} if "from" in kind.words else {}
        if item is None:
            return FormSubject(kind.path, kind.title, choices=choices)
        address = address_of(kind.path, item.name)
        return FormSubject(address, item.name, values=values, etag=tag_of(item), choices=choices)

    async def _save(
        self, request: AdminRequest, item: Shown | None, seen: Preconditions
    ) -> Outcome:
        kind, fields = self.kind, self._fields(new=item is None)
        subject, form = await self._form(request, item), request.form
        body = await fields.submitted(request, subject)
        if isinstance(body, Show):
            return body
        values = typed(form, fields.words)
        again = replace(subject, etag=form.get("etag") or "")
        name = values[_NAME].strip()[:_LONGEST] if item is None else item.name
        try:
            path = {kind.argument: path_segment(name)}
            declaration = self._wanted(body)
            call = call_of(
                self.services, kind.declares, request.actor, request.now, path, declaration
            )
            await kind.declares.run(replace(call, preconditions=seen))
        except InvalidInput as invalid:
            return await fields.draw(request, again, values, invalid.faults)
        except Refused as refused:
            if refused.refusal is FAILED and item is not None:
                return await fields.draw(request, subject, values, stale=True)
            if refused.refusal is not FAILED and refused.refusal.check != "admin_api.name":
                raise
            taken = input_fault(_NAME, "name.unusable")
            return await fields.draw(request, again, values, (taken,))
        return SeeOther(f"{address_of(kind.path, name)}?done=saved")

    def _wanted(self, body: Struct) -> Struct:
        """Return the input of the operation: the source and its text are one there."""
        texts = {name: self._text(value) for name, value in msgspec.to_builtins(body).items()}
        if texts.get("from", "").endswith(":"):
            texts["from"] += texts["argument"]
        words = {name: text for name, text in self.kind.words.items() if name != "argument"}
        return read_input(self.kind.input, words, texts)

    async def _sources(self, request: AdminRequest, chosen: str) -> Choices:
        """Return the sources to choose from; also the chosen one, whose attribute may be gone."""
        call = call_of(self.services, LIST_ATTRIBUTES, request.actor, request.now)
        attributes = (await value_of(call, AttributeList)).items
        named = tuple(f"attribute:{it.name}" for it in attributes)
        choices = (*zip(named, named, strict=True), *SOURCES)
        return choices if not chosen or chosen in dict(choices) else (*choices, (chosen, chosen))

    def _values(self, item: Shown) -> Mapping[str, str]:
        values = {name: self._text(value) for name, value in msgspec.to_builtins(item).items()}
        kind, colon, argument = values.get("from", "").partition(":")
        if f"{kind}{colon}" in dict(SOURCES):
            values |= {"from": f"{kind}{colon}", "argument": argument}
        return values

    @property
    def _references(self) -> References:
        """Return the references of its fields."""
        references = {"clients": APPS, "apis": apis(self.services.claims.default.identifier)}
        return {
            name: reference for name, reference in references.items() if name in self.kind.words
        }

    @staticmethod
    def _text(value: object) -> str:
        if isinstance(value, dict):
            return msgspec.json.format(msgspec.json.encode(value)).decode()
        return as_text(value)

    async def _declared(self, request: AdminRequest) -> Sequence[Shown]:
        kind = self.kind
        call = call_of(self.services, kind.lists, request.actor, request.now)
        return (await value_of(call, kind.list_type)).items

    async def _named(self, request: AdminRequest) -> Shown:
        path = {self.kind.argument: request.arguments[self.kind.argument]}
        call: Call = call_of(self.services, self.kind.lists, request.actor, request.now, path)
        name = call.named(self.kind.argument)
        declaration = next(
            (
                declaration
                for declaration in await self._declared(request)
                if declaration.name == name
            ),
            None,
        )
        if declaration is None:
            raise page_not_found()
        return declaration


@cache
def _with_name(takes: type[Struct]) -> type[Struct]:
    # Once for each kind: what is known of a type is kept for as long as the process runs.
    return msgspec.defstruct("New", [(_NAME, str)], bases=(takes,), kw_only=True, frozen=True)


def declaration_pages(services: Services) -> tuple[Page[AdminRequest], ...]:
    """Return the pages of both kinds."""
    return tuple(page for kind in KINDS for page in DeclarationPages(services, kind).pages())
