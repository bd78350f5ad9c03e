"""Operations on attributes of accounts: declare them, and set those of a user."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.attributes import (
    Faults,
    attributes_of,
    change_attributes,
    declare_attribute,
    remove_attribute,
)
from valetkey.authorization.model.account.user import (
    ATTRIBUTE_NAME,
    MOST_ATTRIBUTES,
    Attribute,
    User,
)
from valetkey.authorization.model.event.groups import AttributeDeclared, AttributeRemoved
from valetkey.authorization.model.event.users import UserChanged
from valetkey.authorization.operations.command import Command, Option
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    Operation,
    Result,
    on_user,
    reads,
    unchecked_write,
)
from valetkey.authorization.operations.records import Anything, Done, tag_of
from valetkey.authorization.protocol.register.faults import NO_CONTROLS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.words import translatable

_ONE = "/attributes/{attribute}"
_OF_USER = "/users/{uid}/attributes"
_Label = Annotated[
    str, msgspec.Meta(pattern=NO_CONTROLS, max_length=80, description="Its name on pages.")
]
_Schema = Annotated[
    dict[str, Anything],
    msgspec.Meta(description="The JSON Schema of its values, as JSON."),
]
_Editable = Annotated[bool, msgspec.Meta(description="Whether users may edit their own.")]
_Values = Annotated[
    dict[Annotated[str, msgspec.Meta(pattern=f"^{ATTRIBUTE_NAME}$")], Anything],
    msgspec.Meta(
        max_length=MOST_ATTRIBUTES, description="Values by name, as JSON; null removes one."
    ),
]


class AttributeShown(msgspec.Struct, frozen=True):
    """A declared attribute of accounts."""

    name: str
    label: str
    schema: dict[str, Anything]
    editable: bool


class AttributeList(msgspec.Struct, frozen=True):
    """Declared attributes by name."""

    items: list[AttributeShown]
    next: str | None = None


class AttributeWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Input for an attribute; a schema of {} allows any JSON."""

    label: _Label = ""
    schema: _Schema = {}
    editable: _Editable = False


class AttributesShown(msgspec.Struct, frozen=True):
    """The values of a user's attributes."""

    attributes: dict[str, Anything]


class AttributesWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Attributes to change; those that are not named stay."""

    attributes: _Values


def list_attributes(tx: Transaction, call: Call) -> Result:
    """List the declared attributes by name."""
    del call
    return Result(AttributeList([_shown(each) for each in tx.declarations.attributes()]))


def declare(tx: Transaction, call: Call) -> bool | Faults:
    """Declare or change an attribute. False if it is declared so."""
    # First: the role is checked with the actor's own account locked.
    tx.declarations.hold_all()
    require(tx, call.actor, call.operation.permission)
    wanted = call.input(AttributeWanted)
    attribute = Attribute(
        call.named("attribute"), wanted.label, dict(wanted.schema), wanted.editable
    )
    declared = {each.name: tag_of(_shown(each)) for each in tx.declarations.attributes()}
    call.preconditions.check(declared.get(attribute.name))
    return declare_attribute(tx, attribute, call.now)


def remove(tx: Transaction, call: Call) -> bool:
    """Remove a declared attribute. Refused: not found."""
    tx.declarations.hold_all()
    require(tx, call.actor, call.operation.permission)
    if not remove_attribute(tx, call.named("attribute"), call.now):
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this attribute does not exist", "attribute.unknown"
        )
    return True


def _shown(attribute: Attribute) -> AttributeShown:
    return AttributeShown(
        attribute.name, attribute.label, dict(attribute.schema), attribute.editable
    )


def read_user_attributes(tx: Transaction, call: Call, user: User) -> AttributesShown:
    """Read the values of a user's declared attributes."""
    return AttributesShown(attributes_of(user, tx.declarations.attributes()))


def change_user_attributes(tx: Transaction, call: Call, user: User) -> bool | Faults:
    """Change the named attributes of a user; null removes a value. False if nothing changed."""
    changed = change_attributes(tx, user, call.input(AttributesWanted).attributes, call.now)
    return changed if isinstance(changed, tuple) else changed is not user


LIST_ATTRIBUTES = Operation(
    "list_attributes",
    "GET",
    "/attributes",
    Permission.READ,
    "List declared attributes of accounts",
    reads(list_attributes),
    output=AttributeList,
    returns_list=True,
    commands=(Command(empty="No attribute is declared."),),
)

DECLARE_ATTRIBUTE = Operation(
    "set_attribute",
    "PUT",
    _ONE,
    Permission.CLIENTS,
    "Declare or change an attribute of accounts",
    unchecked_write(declare),
    description="Existing values are kept, and checked when they are next changed.",
    input=AttributeWanted,
    output=Done,
    event=AttributeDeclared,
    commands=(
        Command(
            "attribute declare",
            example="""--schema '{"type": "string", "maxLength": 40}'""",
            done="The attribute {attribute} is declared.",
            unchanged="The attribute {attribute} is declared like this; nothing changed.",
        ),
    ),
)

REMOVE_ATTRIBUTE = Operation(
    "delete_attribute",
    "DELETE",
    _ONE,
    Permission.CLIENTS,
    "Remove a declared attribute; its values are no longer shown",
    unchecked_write(remove),
    output=Done,
    error_statuses=(409,),
    event=AttributeRemoved,
    buttons=(
        Button(
            "delete",
            translatable("Delete attribute"),
            translatable(
                "Profiles, imports and SCIM no longer show it. Values are kept, and appear again "
                "if an attribute of this name is declared later."
            ),
            translatable("The attribute is deleted."),
            danger=True,
        ),
    ),
    commands=(
        Command(
            "attribute remove",
            question="Remove this attribute? Its values are no longer shown.",
            done="The attribute {attribute} is removed.",
        ),
    ),
)

CHANGE_USER_ATTRIBUTES = Operation(
    "change_user_attributes",
    "PATCH",
    _OF_USER,
    Permission.USERS,
    "Change attributes of a user",
    on_user(change_user_attributes),
    description="Attributes that are not named stay; null removes a value.",
    input=AttributesWanted,
    output=Done,
    event=UserChanged,
    commands=(
        Command(
            "user set-attributes",
            options=(Option("attributes", argument=True),),
            example="""'{"department": "physics"}'""",
        ),
    ),
)

ATTRIBUTES = (
    LIST_ATTRIBUTES,
    DECLARE_ATTRIBUTE,
    REMOVE_ATTRIBUTE,
    Operation(
        "read_user_attributes",
        "GET",
        _OF_USER,
        Permission.READ,
        "Show the values of a user's attributes",
        on_user(read_user_attributes),
        output=AttributesShown,
        commands=(Command("user attributes"),),
    ),
    CHANGE_USER_ATTRIBUTES,
)
