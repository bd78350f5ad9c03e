"""The two kinds of declarations in the console, attributes and claims: texts, rows and forms."""

from collections.abc import Callable
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.operations.attributes import (
    DECLARE_ATTRIBUTE,
    LIST_ATTRIBUTES,
    AttributeList,
    AttributeShown,
    AttributeWanted,
)
from valetkey.authorization.operations.claims import (
    DECLARE_CLAIM,
    LIST_CLAIMS,
    ClaimList,
    ClaimShown,
    ClaimWanted,
)
from valetkey.authorization.operations.operation import Operation
from valetkey.authorization.site.admin.administrator import APPS_AND_APIS, PEOPLE
from valetkey.authorization.site.admin.input_fields import Words
from valetkey.kernel.words import translatable

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
        "profiles, imports and SCIM; a claim puts them into tokens."
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
        translatable("One client ID per line. Leave empty for every app."),
    ),
    "apis": (
        translatable("APIs"),
        translatable("One identifier per line. Leave empty for every API."),
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
    wanted: type[AttributeWanted] | type[ClaimWanted]
    lists: Operation
    list_type: type[AttributeList] | type[ClaimList]
    declares: Operation
    texts: ListText
    words: Words
    row: Callable[[Shown], Row]
    links: tuple[tuple[str, str], ...]
    multiple: tuple[str, ...] = ()
    opaque: tuple[str, ...] = ()

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
        AttributeWanted,
        LIST_ATTRIBUTES,
        AttributeList,
        DECLARE_ATTRIBUTE,
        _ATTRIBUTE_TEXTS,
        _ATTRIBUTE_WORDS,
        _attribute_row,
        (),
        opaque=("schema",),
    ),
    Kind(
        CLAIMS,
        APPS_AND_APIS,
        "claim",
        ClaimWanted,
        LIST_CLAIMS,
        ClaimList,
        DECLARE_CLAIM,
        _CLAIM_TEXTS,
        _CLAIM_WORDS,
        _claim_row,
        ((translatable("Preview tokens"), PREVIEW),),
        multiple=("in",),
        opaque=("clients", "apis"),
    ),
)
