"""The attributes of users and groups, reading values by them (RFC 7643), and what is left out."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NoReturn, cast

from msgspec import Struct, field

from valetkey.authorization.model.user import Attribute as Declared
from valetkey.authorization.scim.storage import ScimGroup, ScimUser
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace

CORE = "urn:ietf:params:scim:schemas:core:2.0:"
EXTENSION = "urn:ietf:params:scim:schemas:extension:valetkey:2.0:User"
"""The extension of users with the attributes that an operator declares."""

USER_SCHEMA, GROUP_SCHEMA = f"{CORE}User", f"{CORE}Group"
_MOST_VALUES = 10
_LONGEST = 2_000
_SHOWN = 80
LONGEST_NAME = 200
_MOST_ITEMS = 200
_SCIM_TYPES = {
    "string": "string",
    "boolean": "boolean",
    "integer": "integer",
    "number": "decimal",
}
_BOOLEANS = {
    **dict.fromkeys(("true", "1", "1.0", "yes", "on"), True),
    **dict.fromkeys(("false", "0", "0.0", "no", "off"), False),
}

Resource = dict[str, object]

LeftOut = set[tuple[str, ...]]
"""The attributes, or parts of them, whose values were left out because they cannot be kept."""


class Attribute(Struct, frozen=True):
    """One attribute, with the characteristics of RFC 7643 section 2.2.

    `most` is how many values are kept. A request with a value of an attribute that `identifies`
    its resource is refused if the value cannot be kept; other values are left out.
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
    identifies: bool = False

    def part(self, name: str) -> "Attribute | None":
        """Return the sub-attribute of this name."""
        return _named(self.parts, name)

    def document(self) -> Resource:
        """Describe the attribute as a schema does (RFC 7643 section 7)."""
        resource: Resource = {
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
            resource["subAttributes"] = [sub_attribute.document() for sub_attribute in self.parts]
        if self.canonical:
            resource["canonicalValues"] = list(self.canonical)
        if self.references:
            resource["referenceTypes"] = list(self.references)
        return resource


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
        text, inside = text.strip(" "), self.everything
        lower = text.lower()
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
        if attribute is not None and not attribute.parts and second.lower() == "value":
            # Some directories write `active.value`.
            return (attribute,)
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

    def read(self, body: object, left: LeftOut) -> Resource:
        """Return the attributes that a client may write, by their names as defined.

        What cannot be kept is added to `left`. Read-only attributes are ignored. Raises Refused
        for what identifies the resource, and for a body that is no resource.
        """
        if not isinstance(body, dict):
            refuse("invalidSyntax", "the resource must be a JSON object")
        resource: Resource = {}
        seen = LeftOut()
        for name, value in self.flat(cast("Resource", body)):
            path = self.find(name)
            if path is None or (len(path) > 1 and path[0].multiple):
                if path is not None or not self.ignores(name):
                    left.add((shown_name(name),))
                continue
            if any(attribute.read_only for attribute in path):
                continue
            where = tuple(attribute.name for attribute in path)
            if where in seen:
                refuse("invalidSyntax", f"{'.'.join(where)} appears twice")
            seen.add(where)
            read = read_value(path[len(path) - 1], value, left, where[:-1])
            if read is not None and len(path) > 1:
                cast("Resource", resource.setdefault(where[0], {}))[where[1]] = read
            elif read is not None:
                resource[where[0]] = read
        return resource

    def flat(self, body: Resource) -> Iterator[tuple[str, object]]:
        """Yield the members of a resource, also those below the URN of the schema itself."""
        for name, value in body.items():
            if name.lower() == "schemas":
                continue
            if name.lower() == self.urn.lower() and isinstance(value, dict):
                yield from cast("Resource", value).items()
            else:
                yield name, value

    def document(self, urn: str, location: str) -> Resource:
        """Describe the schema of this URN, its own or an extension (RFC 7643 section 7)."""
        own = urn == self.urn
        attributes = self.attributes if own else self.extensions[urn]
        return {
            "schemas": [f"{CORE}Schema"],
            "id": urn,
            "name": self.name if own else f"{self.name}Extension",
            "description": self.description if own else "Attributes that this server declares.",
            "attributes": [attribute.document() for attribute in attributes],
            "meta": {"resourceType": "Schema", "location": location},
        }


def user_schema(declared: Sequence[Declared]) -> Schema:
    """Return the schema of users with the declared attributes that SCIM can express."""
    parts = [part for part in map(_extended, declared) if part is not None]
    return replace(USER, extensions={EXTENSION: parts}) if parts else USER


def refuse(kind: str, detail: str) -> NoReturn:
    """Raise Refused (400) with this `scimType` (RFC 7644 section 3.12)."""
    raise Refused.because(ErrorCode.INVALID_REQUEST, detail, f"scim.{kind}")


def conflict(detail: str) -> NoReturn:
    """Raise Refused (409) with the `scimType` uniqueness."""
    raise Refused.because(ErrorCode.CONFLICT, detail, "scim.uniqueness")


def short_text(resource: Resource, name: str) -> str:
    """Return the text of an attribute that identifies a resource. Raises Refused."""
    text = str(resource.get(name, ""))
    if not text:
        refuse("invalidValue", f"{name} is required")
    if not is_short(text):
        refuse("invalidValue", f"{name} takes at most {LONGEST_NAME} printable characters")
    return text


def is_short(text: str) -> bool:
    """Return whether the text has at most 200 printable characters and no space at its ends."""
    return len(text) <= LONGEST_NAME and text.isprintable() and text.strip() == text


def shown_name(name: str) -> str:
    """Return the name of an unknown attribute as events show it."""
    return name[:_SHOWN] if name.isprintable() else "…"


def read_value(
    attribute: Attribute, value: object, left: LeftOut, where: tuple[str, ...] = ()
) -> object:
    """Return a value as its attribute defines it; None for null, empty ones and those left out.

    Raises Refused (invalidValue) if the attribute identifies the resource.
    """
    path = (*where, attribute.name)
    if value is None:
        return None
    if not attribute.multiple:
        return _read_one(attribute, value, left, path)
    values = cast("list[object]", value) if isinstance(value, list) else [value]
    if len(values) > attribute.most:
        if attribute.identifies:
            refuse("invalidValue", f"{attribute.name} takes at most {attribute.most} values")
        left.add(path)
        # The primary value is the one that counts.
        values = sorted(values, key=lambda item: not _is_primary(item))[: attribute.most]
    items = [_read_one(attribute, item, left, path) for item in values]
    return [item for item in items if item is not None] or None


def _read_one(attribute: Attribute, value: object, left: LeftOut, path: tuple[str, ...]) -> object:
    if attribute.type == "complex":
        if isinstance(value, str) and attribute.part("value") is not None:
            value = {"value": value}
        if isinstance(value, dict):
            return _read_parts(attribute.parts, cast("Resource", value), left, path) or None
    elif attribute.type == "boolean":
        boolean = _boolean(attribute.name, value)
        if boolean is not None:
            return boolean
    elif attribute.type in {"integer", "decimal"}:
        allowed = int if attribute.type == "integer" else (int, float)
        if isinstance(value, allowed) and not isinstance(value, bool):
            return value
    elif isinstance(value, str) and len(value) <= _LONGEST:
        return value.strip() or None
    if attribute.identifies and not attribute.multiple:
        refuse(
            "invalidValue", f"{attribute.name} must be text of at most {LONGEST_NAME} characters"
        )
    left.add(path)
    return None


def _boolean(name: str, value: object) -> bool | None:
    """Return a boolean in the forms that directories send: `"False"`, 0, `{"value": false}`."""
    while isinstance(value, dict | list):
        if isinstance(value, list):
            inside = cast("list[object]", value)
        else:
            members = cast("Resource", value).items()
            inside = [member for part, member in members if part.lower() in {"value", name.lower()}]
        if len(inside) != 1:
            return None
        value = inside[0]
    if isinstance(value, str | int | float):
        return _BOOLEANS.get(str(value).strip().lower())
    return None


def _is_primary(value: object) -> bool:
    return isinstance(value, dict) and cast("Resource", value).get("primary") is True


def _read_parts(
    parts: Sequence[Attribute], resource: Resource, left: LeftOut, path: tuple[str, ...]
) -> Resource:
    values: Resource = {}
    for name, value in resource.items():
        attribute = _named(parts, name)
        if attribute is None or attribute.read_only:
            continue
        if attribute.name in values:
            refuse("invalidSyntax", f"{'.'.join(path)}.{attribute.name} appears twice")
        read = read_value(attribute, value, left, path)
        if read is not None:
            values[attribute.name] = read
    return values


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
    return next((attribute for attribute in attributes if attribute.name.lower() == lower), None)


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
        Attribute(
            "userName",
            "What the directory calls the user.",
            required=True,
            unique=True,
            identifies=True,
        ),
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
        Attribute(
            "displayName",
            "What the directory calls the group.",
            required=True,
            unique=True,
            identifies=True,
        ),
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
            identifies=True,
        ),
    ),
)


_MOST = 20
"""Maximum number of names that are stored for one resource."""


def left_name(path: tuple[str, ...]) -> str:
    """Return the name of an attribute or part, as events and `valetkey doctor` show it."""
    return path[1] if len(path) > 1 and path[0].startswith("urn:") else ".".join(path)


def left_out_text(left: LeftOut, stays: str = "") -> str:
    """Return the names of what was left out now, with those that `stays` has from before."""
    names = {*map(left_name, left), *_names(stays)}
    return ", ".join(sorted(names)[:_MOST])


def still_left_out(text: str, touched: Collection[str]) -> str:
    """Return the names of what was left out before, without the attributes that are sent again."""
    return ", ".join(name for name in _names(text) if name.partition(".")[0] not in touched)


def restored(resource: Resource, before: Resource, left: LeftOut) -> Resource:
    """Return the resource with the values from before in place of those that were left out."""
    after = dict(resource)
    for name, *part in left:
        old = before.get(name)
        if isinstance(old, dict) and part:
            inside = cast("Resource", after.get(name, {}))
            stays = {
                part_name: value
                for part_name, value in cast("Resource", old).items()
                if part_name in part
            }
            after[name] = {**stays, **inside}
        elif old is not None and name not in after:
            after[name] = old
    return after


def external_id(resource: Resource, stored_resource: ScimUser | ScimGroup, left: LeftOut) -> str:
    """Return the `externalId`; the one before if it cannot be kept."""
    text = str(resource.get("externalId", ""))
    if is_short(text):
        return text
    left.add(("externalId",))
    return stored_resource.external_id


def _names(text: str) -> list[str]:
    return text.split(", ") if text else []
