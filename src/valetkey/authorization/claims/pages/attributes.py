"""/admin/users/{uid}/attributes: edit the attributes of a user."""

from collections.abc import Mapping, Sequence
from typing import cast

import msgspec
from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.admin.search import is_gone
from valetkey.authorization.actions.attributes import (
    attributes_of,
    shown_value,
    takes_json,
    typed_value,
)
from valetkey.authorization.model.account.user import Attribute, User, uid_of
from valetkey.authorization.operations.attributes import CHANGE_USER_ATTRIBUTES, AttributesWanted
from valetkey.authorization.operations.operation import InvalidInput, Services, call_of
from valetkey.authorization.protocol.register.reasons import reason_of
from valetkey.authorization.site.admin.administrator import (
    AdminRequest,
    administrator,
    page_not_found,
)
from valetkey.authorization.site.admin.input_fields import Faults, InputField, json_value
from valetkey.authorization.site.admin.input_form import InputFormPage
from valetkey.authorization.site.admin.users.users import user_address
from valetkey.authorization.site.page import Act, Outcome, Page, SeeOther, Show
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.words import translatable

ATTRIBUTES = "/admin/users/{uid}/attributes"

_PREFIX = "attributes/"
_NAME = "attribute_"
"""The prefix of field names, so that an attribute cannot be mistaken for `csrf`."""

_LONGEST = 8_192
_BAD_REQUEST = 400


class UserAttributesPage(Struct, frozen=True):
    """The form with a field for each declared attribute; its type decides the field."""

    services: Services

    def pages(self) -> tuple[Page[AdminRequest], ...]:
        """Return the page of this feature."""
        requirement, title = administrator(Permission.USERS), translatable("Edit attributes")
        return (Page(ATTRIBUTES, requirement, self.edit, Act(self.change), title=title),)

    async def edit(self, request: AdminRequest) -> Outcome:
        """Show the form with the user's values."""
        user, declared = await self._look(request)
        values = attributes_of(user, declared)
        texts = {each.name: _text(each, values.get(each.name)) for each in declared}
        return _form(request, user, declared, texts)

    async def change(self, request: AdminRequest) -> Outcome:
        """Change the edited attributes; an empty field removes the value."""
        user, declared = await self._look(request)
        texts = {
            each.name: (request.form.get(_NAME + each.name) or "")[:_LONGEST] for each in declared
        }
        try:
            body = AttributesWanted(
                {each.name: _value(each, texts[each.name]) for each in declared}
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
                tx.declarations.attributes(),
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
    place = user_address(user.uid)
    page = InputFormPage(
        action=f"{place}/attributes",
        back=place,
        above=user.name or user.username,
        title=translatable("Edit attributes"),
        submit=translatable("Save changes"),
        fields=tuple(_field(each, texts[each.name], faults) for each in declared),
    )
    return Show(page, _BAD_REQUEST if faults else 200)


def _field(attribute: Attribute, text: str, faults: Faults) -> InputField:
    # A fault is about the attribute that its path names, or about all together.
    mine = [
        fault
        for fault in faults
        if fault.field.removeprefix(_PREFIX).partition("/")[0] in {attribute.name, "attributes"}
    ]
    offered = attribute.schema.get("enum")
    choices: tuple[tuple[str, str], ...] = ()
    if attribute.schema.get("type") == "boolean":
        choices = (("", ""), ("true", translatable("yes")), ("false", translatable("no")))
    elif isinstance(offered, list) and not takes_json(attribute):
        values = tuple(shown_value(each) for each in cast("list[object]", offered))
        choices = (("", ""), *((each, each) for each in values))
    if choices and text not in dict(choices):
        choices += ((text, text),)
    hint = (
        translatable("As JSON. Leave empty to remove the value.") if takes_json(attribute) else ""
    )
    return InputField(
        name=_NAME + attribute.name,
        label=attribute.label or attribute.name,
        hint=hint,
        kind="choice" if choices else "text",
        value=text,
        required=False,
        choices=choices,
        faulty=bool(mine),
        fault=mine[0].detail if mine else "",
        # The validator's message is more precise than the templates about values.
        must=reason_of(mine[0]) if mine and mine[0].code == "text.json" else None,
    )
