"""/admin/claims/preview and /admin/users/{uid}/attributes: tokens and attributes of a user."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, cast

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import is_gone, resolve_users
from valetkey.authorization.actions.attributes import (
    attributes_of,
    shown_value,
    takes_json,
    typed_value,
)
from valetkey.authorization.claims.operations import (
    CHANGE_USER_ATTRIBUTES,
    PREVIEW,
    AttributesWanted,
    ClaimsPreview,
)
from valetkey.authorization.claims.pages.declarations import CLAIMS, PLACE_WORDS
from valetkey.authorization.claims.pages.declarations import PREVIEW as PREVIEW_PAGE
from valetkey.authorization.model.user import Attribute, User, uid_of
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of, value_of
from valetkey.authorization.protocol.register.faults import MetadataError, fault
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.input_fields import (
    Faults,
    InputField,
    field_at_fault,
    json_value,
)
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.references import APPS, Named, users_offered
from valetkey.authorization.site.admin.users.users import UserLine, line_of, user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.text import translatable
from valetkey.kernel.url import path_segment

_LONGEST = {"person": 200, "client": 200, "api": 500, "scope": 1_000}
_MOST_APIS = 200
_UNKNOWN = {
    "admin.client": ("client", translatable("App not found.")),
    "admin.api": ("api", translatable("API not found.")),
}


class TokenPreview(Struct, frozen=True):
    """One token: its title and its content as JSON."""

    slug: str
    title: str
    text: str


class PreviewPage(Struct, frozen=True):
    """The form, sent with GET, and the preview. `faults` are by field."""

    template: ClassVar[str] = "claims/pages/preview.html"
    scripts: ClassVar[tuple[str, ...]] = ("copy.js",)

    action: str
    back: str
    #: The submitted text, by field.
    typed: dict[str, str]
    #: Identifiers of APIs to choose from, the default one first.
    apis: tuple[str, ...]
    faults: dict[str, str]
    several: tuple[UserLine, ...] = ()
    #: The scope of the tokens, None before anything was previewed.
    scope: str | None = None
    by_reference: bool = False
    tokens: tuple[TokenPreview, ...] = ()
    #: Tokens that this scope and API do not give.
    missing: tuple[str, ...] = ()
    #: Usernames and client IDs that the fields offer, with names.
    users: tuple[Named, ...] = ()
    clients: tuple[Named, ...] = ()


class ClaimsPreviewPages(Struct, frozen=True):
    """Preview tokens, by the operation that `valetkey claims preview` runs."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        title = translatable("Preview tokens")
        return (Page(PREVIEW_PAGE, administrator(), self.show, title=title),)

    async def show(self, request: AdminRequest) -> Outcome:
        """Show the form, and the tokens once a user and an app are chosen."""
        query, actor = request.query, request.actor
        parameters = {
            name: (query.get(name) or "").strip()[:longest] for name, longest in _LONGEST.items()
        }
        default = self.services.claims.default.identifier

        def read_state(tx: Transaction) -> tuple[Sequence[User], PreviewPage]:
            require(tx, actor, Permission.READ)
            apis = (default, *tx.apis.identifiers(_MOST_APIS))
            page = PreviewPage(
                PREVIEW_PAGE,
                CLAIMS,
                parameters,
                apis,
                {},
                users=users_offered(tx),
                clients=tuple(APPS.offered(tx)),
            )
            return resolve_users(tx, parameters["person"]), page

        users, page = await self.services.store.scan(read_state)
        if "person" not in query or "client" not in query:
            return Show(page)
        faults = dict[str, str]()
        if not users:
            faults["person"] = translatable("User not found.")
        if not parameters["client"]:
            faults["client"] = translatable("Enter a client ID.")
        if parameters["scope"] and not _is_scope(parameters["scope"]):
            faults["scope"] = translatable("Enter scope names, separated by spaces.")
        if faults or len(users) > 1:
            several = tuple(line_of(user, request.now) for user in users[:10] if len(users) > 1)
            return Show(replace(page, faults=faults, several=several))
        requested = {name: parameters[name] for name in ("api", "scope") if parameters[name]}
        path = {"uid": str(users[0].uid), "client_id": path_segment(parameters["client"])}
        try:
            call = call_of(self.services, PREVIEW, actor, request.now, path, query=requested)
            preview = await value_of(call, ClaimsPreview)
        except Refused as refused:
            unknown = _UNKNOWN.get(refused.refusal.check)
            if unknown is None and refused.refusal.code is not ErrorCode.NOT_FOUND:
                raise
            field, fault = unknown or _UNKNOWN["admin.client"]
            return Show(replace(page, faults={field: fault}))
        return Show(_found(page, preview))


def _is_scope(text: str) -> bool:
    try:
        Scope.parse(text)
    except (Refused, ValueError):
        return False
    return True


def _found(page: PreviewPage, preview: ClaimsPreview) -> PreviewPage:
    contents = {
        "id_token": preview.id_token,
        "access_token": preview.access_token,
        "userinfo": preview.userinfo,
    }
    if preview.introspection:
        contents["introspection"] = preview.introspection
    words = PLACE_WORDS
    return replace(
        page,
        scope=preview.scope,
        by_reference=preview.access_token_format == "reference",
        tokens=tuple(
            TokenPreview(name, words[name], _json(content))
            for name, content in contents.items()
            if content is not None
        ),
        missing=tuple(words[name] for name, content in contents.items() if content is None),
    )


def _json(content: object) -> str:
    return msgspec.json.format(msgspec.json.encode(content)).decode()


_OF_USER = "/admin/users/{uid}/attributes"

_PREFIX = "attributes/"
_NAME = "attribute_"
"""The prefix of field names, so that an attribute cannot be mistaken for `csrf`."""

_LONGEST_VALUE = 8_192
_BAD_REQUEST = 400


class UserAttributesPage(Struct, frozen=True):
    """The form with a field for each declared attribute; its type decides the field."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        requirement, title = administrator(Permission.USERS), translatable("Edit attributes")
        return (Page(_OF_USER, requirement, self.edit, Act(self.change), title=title),)

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with the user's values."""
        user, declared = await self._look(request)
        values = attributes_of(user, declared)
        texts = {
            attribute.name: _text(attribute, values.get(attribute.name)) for attribute in declared
        }
        return _form(request, user, declared, texts)

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the edited attributes; an empty field removes the value."""
        user, declared = await self._look(request)
        texts = {
            attribute.name: (request.form.get(_NAME + attribute.name) or "")[:_LONGEST_VALUE]
            for attribute in declared
        }
        try:
            body = AttributesWanted(
                {attribute.name: _value(attribute, texts[attribute.name]) for attribute in declared}
            )
            path = {"uid": str(user.uid)}
            call = call_of(
                self.services, CHANGE_USER_ATTRIBUTES, request.actor, request.now, path, body
            )
            await CHANGE_USER_ATTRIBUTES.run(call)
        except InvalidInput as invalid:
            return _form(request, user, declared, texts, invalid.faults)
        return SeeOther(f"{user_address(user.uid)}?done=attributes")

    async def _look(self, request: AdminRequest) -> tuple[User, Sequence[Attribute]]:
        uid, actor = uid_of(request.arguments["uid"]), request.actor

        def read_state(tx: Transaction) -> tuple[User, Sequence[Attribute]]:
            user, declared = (
                None if uid is None else tx.users.find(uid),
                tx.attributes(),
            )
            if user is None or is_gone(user) or not declared:
                raise page_not_found()
            require(tx, actor, Permission.USERS, user)
            return user, declared

        return await self.services.store.scan(read_state)


def _text(attribute: Attribute, value: object) -> str:
    if value is None:
        return ""
    # Text in an attribute of any type is quoted, so that it comes back as text.
    return msgspec.json.encode(value).decode() if takes_json(attribute) else shown_value(value)


def _value(attribute: Attribute, text: str) -> object:
    if not takes_json(attribute):
        return typed_value(attribute, text)
    return json_value(f"{_PREFIX}{attribute.name}", text)


def _form(
    request: AdminRequest,
    user: User,
    declared: Sequence[Attribute],
    texts: Mapping[str, str],
    faults: Faults = (),
) -> Outcome:
    address = user_address(user.uid)
    page = InputFormPage(
        action=f"{address}/attributes",
        back=address,
        above=user.name or user.username,
        title=translatable("Edit attributes"),
        submit=translatable("Save changes"),
        fields=tuple(_field(attribute, texts[attribute.name], faults) for attribute in declared),
    )
    return Show(page, _BAD_REQUEST if faults else 200)


def _field(attribute: Attribute, text: str, faults: Faults) -> InputField:
    # A fault is about the attribute that its path names, or about all together.
    mine = [
        error
        for error in faults
        if error.field.removeprefix(_PREFIX).partition("/")[0] in {attribute.name, "attributes"}
    ]
    offered = attribute.schema.get("enum")
    choices: tuple[tuple[str, str], ...] = ()
    if attribute.schema.get("type") == "boolean":
        choices = (("", ""), ("true", translatable("yes")), ("false", translatable("no")))
    elif isinstance(offered, list) and not takes_json(attribute):
        values = tuple(shown_value(value) for value in cast("list[object]", offered))
        choices = (("", ""), *((value, value) for value in values))
    if choices and text not in dict(choices):
        choices += ((text, text),)
    hint = (
        translatable("As JSON. Leave empty to remove the value.") if takes_json(attribute) else ""
    )
    field = InputField(
        name=_NAME + attribute.name,
        label=attribute.label or attribute.name,
        hint=hint,
        kind="choice" if choices else "text",
        value=text,
        required=False,
        choices=choices,
    )
    return _at_fault(field, mine[0]) if mine else field


def _at_fault(field: InputField, error: MetadataError) -> InputField:
    if error.code == "attribute.schema":
        # The text of the validator says more than the sentence about any schema.
        error = fault(error.field, "schema.value", reason=error.detail)
    wrong = field_at_fault(error)
    return replace(field, faulty=True, fault=wrong.fault, sentence=wrong.sentence, must=wrong.must)
