"""The attributes of users and groups, and reading values by them (RFC 7643)."""

from collections.abc import Mapping, Sequence
from typing import NoReturn, cast

from msgspec import Struct, field

from valetkey.authorization.model.account.user import Attribute as Declared
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

CORE = "urn:ietf:params:scim:schemas:core:2.0:"
EXTENSION = "urn:ietf:params:scim:schemas:extension:valetkey:2.0:User"
"""The extension of users with the attributes that an operator declares."""

USER_SCHEMA, GROUP_SCHEMA = f"{CORE}User", f"{CORE}Group"
_MOST_VALUES = 20
_LONGEST = 2_000
LONGEST_NAME = 200
_MOST_ITEMS = 200
_SCIM_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "integer": "integer",
    "number": "decimal",
}
_BOOLEANS = {"true": True, "false": False}

Resource = dict[str, object]


class Attribute(Struct, frozen=True):
    """One attribute, with the characteristics of RFC 7643 section 2.2.

    `most` is how many values one request may hold.
    """

    name: str
    description: str
    type: str = "string"
    parts: Sequence["Attribute"] = ()
    multiple: bool = False
    required: bool = False
    exact: bool = False
    read_only: bool = False
    returned: str = "default"
    unique: bool = False
    canonical: Sequence[str] = ()
    references: Sequence[str] = ()
    most: int = _MOST_VALUES

    def part(self, name: str) -> "Attribute | None":
        """Return the sub-attribute of this name."""
        return _named(self.parts, name)

    def document(self) -> Resource:
        """Describe the attribute as a schema does (RFC 7643 section 7)."""
        said: Resource = {
            "name": self.name,
            "type": self.type,
            "multiValued": self.multiple,
            "description": self.description,
            "required": self.required,
            "caseExact": self.exact,
            "mutability": "readOnly" if self.read_only else "readWrite",
            "returned": self.returned,
            "uniqueness": "server" if self.unique else "none",
        }
        if self.parts:
            said["subAttributes"] = [each.document() for each in self.parts]
        if self.canonical:
            said["canonicalValues"] = list(self.canonical)
        if self.references:
            said["referenceTypes"] = list(self.references)
        return said


class Schema(Struct, frozen=True):
    """The attributes of one kind of resource; `extensions` by their URN.

    `ignored` are standard attributes that this server does not store, in lower case: directories
    send them by default.
    """

    urn: str
    name: str
    description: str
    attributes: Sequence[Attribute]
    extensions: Mapping[str, Sequence[Attribute]] = field(
        default_factory=dict[str, Sequence[Attribute]]
    )
    ignored: frozenset[str] = frozenset()

    @property
    def everything(self) -> Sequence[Attribute]:
        """Return all attributes with the common ones; an extension is a complex one by its URN."""
        extended = (
            Attribute(urn, "An extension.", "complex", parts)
            for urn, parts in self.extensions.items()
        )
        return (*_COMMON, *self.attributes, *extended)

    def find(self, text: str) -> tuple[Attribute, ...] | None:
        """Return the attribute, and its part if named, of a path such as `name.givenName`."""
        lower, inside = text.lower(), self.everything
        for urn in (self.urn, *self.extensions):
            if lower.startswith(f"{urn.lower()}:"):
                text = text[len(urn) + 1 :]
                extension = _named(inside, urn)
                if extension is not None:
                    part = extension.part(text)
                    return None if part is None else (extension, part)
                break
        whole = _named(inside, text)
        if whole is not None:
            return (whole,)
        first, dot, second = text.partition(".")
        attribute = _named(inside, first)
        part = attribute.part(second) if attribute is not None and dot else None
        return None if attribute is None or part is None else (attribute, part)

    def ignores(self, text: str) -> bool:
        """Return whether this path names a standard attribute that is not kept."""
        lower = text.lower().removeprefix(f"{self.urn.lower()}:")
        return (
            lower.startswith(_ENTERPRISE)
            or lower.partition(".")[0] in self.ignored
            or (lower in self.ignored)
        )

    def read(self, body: object) -> Resource:
        """Return the attributes that a client may write, by their names as defined.

        Unknown and read-only ones are left out. Raises Refused (invalidValue) for wrong types.
        """
        if not isinstance(body, dict):
            refuse("invalidSyntax", "the resource must be a JSON object")
        return _read_parts(self.everything, cast("dict[str, object]", body), "")

    def document(self, urn: str, location: str) -> Resource:
        """Describe the schema of this URN, its own or an extension (RFC 7643 section 7)."""
        own = urn == self.urn
        attributes = self.attributes if own else self.extensions[urn]
        return {
            "schemas": [f"{CORE}Schema"],
            "id": urn,
            "name": self.name if own else f"{self.name}Extension",
            "description": self.description if own else "Attributes that this server declares.",
            "attributes": [each.document() for each in attributes],
            "meta": {"resourceType": "Schema", "location": location},
        }


def user_schema(declared: Sequence[Declared]) -> Schema:
    """Return the schema of users with the declared attributes that SCIM can express."""
    parts = [each for each in map(_extended, declared) if each is not None]
    return replace(USER, extensions={EXTENSION: parts}) if parts else USER


def refuse(kind: str, detail: str) -> NoReturn:
    """Raise Refused (400) with this `scimType` (RFC 7644 section 3.12)."""
    raise Refused.because(ErrorCode.INVALID_REQUEST, detail, f"scim.{kind}")


def conflict(detail: str) -> NoReturn:
    """Raise Refused (409) with the `scimType` uniqueness."""
    raise Refused.because(ErrorCode.CONFLICT, detail, "scim.uniqueness")


def short_text(wanted: Resource, name: str, *, required: bool = False) -> str:
    """Return the text of an attribute of at most 200 characters. Raises Refused."""
    text = str(wanted.get(name, ""))
    if len(text) > LONGEST_NAME or not text.isprintable() or text.strip() != text:
        refuse("invalidValue", f"{name} takes at most {LONGEST_NAME} printable characters")
    if required and not text:
        refuse("invalidValue", f"{name} is required")
    return text


def read_value(attribute: Attribute, value: object, where: str = "") -> object:
    """Return a value as its attribute defines it; None for null and empty ones.

    Raises Refused (invalidValue).
    """
    name = f"{where}{attribute.name}"
    if value is None:
        return None
    if not attribute.multiple:
        return _read_one(attribute, value, name)
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(values) > attribute.most:
        refuse("invalidValue", f"{name} takes at most {attribute.most} values in one request")
    found = [_read_one(attribute, each, name) for each in values]
    return [each for each in found if each is not None] or None


def _read_one(attribute: Attribute, value: object, name: str) -> object:
    if attribute.type == "complex":
        if isinstance(value, str) and attribute.part("value") is not None:
            value = {"value": value}
        if not isinstance(value, dict):
            refuse("invalidValue", f"{name} must be an object")
        return _read_parts(attribute.parts, cast("dict[str, object]", value), f"{name}.") or None
    if attribute.type == "boolean":
        # Entra ID sends booleans as text.
        known = _BOOLEANS.get(value.lower()) if isinstance(value, str) else value
        if not isinstance(known, bool):
            refuse("invalidValue", f"{name} must be true or false")
        return known
    if attribute.type in {"integer", "decimal"}:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (attribute.type == "integer" and not isinstance(value, int)):
            refuse("invalidValue", f"{name} must be a number")
        return value
    if not isinstance(value, str) or len(value) > _LONGEST:
        refuse("invalidValue", f"{name} must be text of at most {_LONGEST} characters")
    return value or None


def _read_parts(parts: Sequence[Attribute], said: Mapping[str, object], where: str) -> Resource:
    found: Resource = {}
    for name, value in said.items():
        attribute = _named(parts, name)
        if attribute is None or attribute.read_only:
            continue
        if attribute.name in found:
            refuse("invalidSyntax", f"{where}{attribute.name} appears twice")
        read = read_value(attribute, value, where)
        if read is not None:
            found[attribute.name] = read
    return found


def _extended(declared: Declared) -> Attribute | None:
    shape = declared.schema
    multiple = shape.get("type") == "array"
    items = shape.get("items") if multiple else shape
    inside: Mapping[str, object] = (
        cast("Mapping[str, object]", items) if isinstance(items, dict) else {}
    )
    kind = _SCIM_TYPES.get(str(inside.get("type")))
    if kind is None:
        return None
    label = declared.label or declared.name
    return Attribute(declared.name, label, kind, multiple=multiple, exact=True, most=_MOST_ITEMS)


def _named(attributes: Sequence[Attribute], name: str) -> Attribute | None:
    lower = name.lower()
    return next((each for each in attributes if each.name.lower() == lower), None)


def _several(name: str, description: str, *parts: Attribute, required: bool = False) -> Attribute:
    kind = Attribute("type", "What it is for.", canonical=("work",))
    primary = Attribute("primary", "Whether it is the one that is kept.", "boolean")
    parts = (*parts, kind, primary)
    return Attribute(name, description, "complex", parts, multiple=True, required=required)


_META = (
    Attribute("resourceType", "The kind of resource.", exact=True, read_only=True),
    Attribute("created", "When it was created.", "dateTime", read_only=True),
    Attribute("lastModified", "When it was last changed.", "dateTime", read_only=True),
    Attribute("location", "Its address.", "reference", exact=True, read_only=True),
    Attribute("version", "Its ETag.", exact=True, read_only=True),
)
_COMMON = (
    Attribute(
        "id", "The identifier on this server.", exact=True, read_only=True, returned="always"
    ),
    Attribute("externalId", "The identifier at the directory.", exact=True),
    Attribute("meta", "Metadata of the resource.", "complex", _META, read_only=True),
)
_ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:user"
_IGNORED = (
    *("title", "usertype", "preferredlanguage", "password", "ims", "photos", "entitlements"),
    *("roles", "x509certificates", "name.formatted", "name.honorificprefix"),
    "name.honorificsuffix",
)

USER = Schema(
    USER_SCHEMA,
    "User",
    "An account.",
    (
        Attribute("userName", "What the directory calls the user.", required=True, unique=True),
        Attribute(
            "name",
            "The parts of the name.",
            "complex",
            (
                Attribute("givenName", "First name."),
                Attribute("familyName", "Last name."),
                Attribute("middleName", "Middle names."),
            ),
        ),
        Attribute("displayName", "The full name."),
        Attribute("nickName", "The casual name."),
        Attribute(
            "profileUrl", "An https page about the user.", "reference", references=("external",)
        ),
        Attribute("locale", "Language tag, such as en-GB."),
        Attribute("timezone", "Time zone, such as Europe/London."),
        Attribute("active", "Whether the user can sign in.", "boolean", required=True),
        _several(
            "emails",
            "One email address.",
            Attribute("value", "The address.", required=True),
            required=True,
        ),
        _several("phoneNumbers", "One number.", Attribute("value", "Number in E.164 format.")),
        _several(
            "addresses",
            "One postal address.",
            Attribute("formatted", "As on an envelope."),
            Attribute("streetAddress", "Street and number."),
            Attribute("locality", "City."),
            Attribute("region", "State or province."),
            Attribute("postalCode", "Postal code."),
            Attribute("country", "Country."),
        ),
        Attribute(
            "groups",
            "Groups of the user.",
            "complex",
            (
                Attribute("value", "Id of the group.", exact=True, read_only=True),
                Attribute(
                    "$ref",
                    "Address of the group.",
                    "reference",
                    read_only=True,
                    references=("Group",),
                ),
                Attribute("display", "Name of the group.", read_only=True),
            ),
            multiple=True,
            read_only=True,
            returned="request",
        ),
    ),
    ignored=frozenset(_IGNORED),
)

GROUP = Schema(
    GROUP_SCHEMA,
    "Group",
    "A group of users.",
    (
        Attribute("displayName", "What the directory calls the group.", required=True, unique=True),
        Attribute(
            "members",
            "Users in the group.",
            "complex",
            (
                Attribute("value", "Id of the user.", exact=True),
                Attribute(
                    "$ref",
                    "Address of the user.",
                    "reference",
                    references=("User",),
                ),
                Attribute("type", "User.", canonical=("User",)),
            ),
            multiple=True,
            most=1_000,
        ),
    ),
)
