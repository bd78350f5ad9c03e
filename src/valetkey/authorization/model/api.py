"""APIs (protected resources, RFC 8707), and claims of their tokens beyond the protocol's.

Each field of an API is declared in `ApiMetadata`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum, StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, Protocol, get_type_hints

from msgspec import NODEFAULT, Struct, field, structs

from valetkey.authorization.model.client import AccessTokenFormat, Client
from valetkey.authorization.model.user import NAME, User
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.scope import Scope
from valetkey.kernel.text import translatable

ApiGeneration = tuple[str, int]
"""The id of an API and the generation in which something was granted; "" is the default API."""


MOST_SCOPES = 100
"""Maximum number of scopes of an API, with those of clients themselves."""

ROLE_NAME = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,79}"
"""The pattern of a role's name."""

_LONGEST_LIFETIME = 86_400
"""Maximum lifetime of tokens in seconds; the record of a revocation is kept for two days."""

_SCOPE_NAME = r"[!$-\[\]-~]{1,100}"
_SCOPES = translatable("Scopes and roles")
_ACCESS = translatable("Access")
_TOKENS = translatable("Tokens")


@dataclass(frozen=True, slots=True)
class ApiFieldRule:
    """What interfaces say of a field and judge in it, beyond its type and its default.

    `label`, `hint` and `group`, its heading, are those of the form, `help` that of the command,
    `description` that of the admin API. Texts have `shortest` to `longest` characters; the names in
    a list, at most `most`, have the `pattern`, whose error has the `code`, and the `reason` where a
    body is read. A lifetime has at most `longest` seconds. `choices` are the values of an
    enumeration with their labels; without them it is shown by its values. A label, a hint and a
    heading are translatable.
    """

    label: str
    hint: str = ""
    group: str = ""
    _: KW_ONLY
    help: str = ""
    description: str = ""
    shortest: int = 0
    longest: int = 200
    most: int = 0
    pattern: str = ""
    reason: str = ""
    code: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    is_fixed: bool = False
    """Whether it stays what it was when the API was declared."""


class ApiMetadata(Struct, frozen=True):
    """What is declared of an API; each field is declared here, and has a column.

    Forms, commands, `valetkey apply`, the admin API and the storage derive from it.
    """

    identifier: Annotated[
        str,
        ApiFieldRule(
            translatable("Identifier"),
            translatable(
                "The URL of the API including its path: the resource parameter that apps send, and "
                "the audience of its tokens. It cannot be changed later."
            ),
            help="The URL by which clients name the API; it cannot change later.",
            shortest=1,
            longest=500,
            is_fixed=True,
        ),
    ]
    name: Annotated[
        str,
        ApiFieldRule(
            translatable("Name"),
            translatable("Users see this name on the consent page."),
            help="The API's name, as users see it on the consent page.",
            shortest=1,
            longest=80,
        ),
    ] = ""
    scopes: Annotated[
        Mapping[str, str],
        ApiFieldRule(
            translatable("Scopes"),
            translatable(
                "The name, such as calendar:read, and the permission that it gives an app, such "
                "as: see your calendar"
            ),
            _SCOPES,
            help="Each scope with its description on the consent page, as JSON: "
            '{"files:read": "see your files"}.',
            shortest=1,
            most=MOST_SCOPES,
            pattern=_SCOPE_NAME,
            reason="scope.form",
        ),
    ] = field(default_factory=dict[str, str])
    """What users can allow, each with its description."""
    machine_scopes: Annotated[
        tuple[str, ...],
        ApiFieldRule(
            translatable("Machine scopes"),
            translatable("For apps that use client credentials."),
            _SCOPES,
            help="A scope that clients can request for themselves.",
            most=MOST_SCOPES,
            pattern=_SCOPE_NAME,
            reason="scope.form",
        ),
    ] = ()
    """What clients have of their own."""
    shares_scopes: Annotated[
        bool,
        ApiFieldRule(
            translatable("Other APIs may declare the same scope names"),
            translatable("Both APIs must allow it."),
            _SCOPES,
            help="Whether another API may declare the same scope names.",
        ),
    ] = False
    roles: Annotated[
        tuple[str, ...],
        ApiFieldRule(
            translatable("Roles"),
            translatable(
                "Such as editor. Users and groups get them on their pages, and "
                "tokens contain them in the claim roles."
            ),
            _SCOPES,
            help="A role that users and groups can have at the API.",
            most=50,
            pattern=ROLE_NAME,
            reason="role.form",
            code="role.name",
        ),
    ] = ()
    """What can be assigned to users and groups."""
    clients: Annotated[
        frozenset[str] | None,
        ApiFieldRule(
            translatable("Allowed apps"),
            translatable("Names or client IDs, or the word any."),
            _ACCESS,
            description="Apps that may request it: client ids, or `any`.",
            most=1_000,
            pattern="[!-~]{1,100}",
            reason="app.unknown",
        ),
    ] = None
    """The clients that may request it; None for every client."""
    required_groups: Annotated[
        tuple[str, ...],
        ApiFieldRule(
            translatable("Required groups"),
            translatable("Only members of one of them get tokens for this API."),
            _ACCESS,
            help="A group; only members of one of them get tokens for the API.",
            description="Only members of one of them get tokens for it.",
            most=50,
            pattern=NAME,
            reason="group.form",
            code="group.name",
        ),
    ] = ()
    """Tokens of users are for members of one of them only, if there are any."""
    access_token_format: Annotated[
        AccessTokenFormat | None,
        ApiFieldRule(
            translatable("Format of access tokens"),
            "",
            _TOKENS,
            help="A jwt can be verified anywhere; a reference can be revoked everywhere at once.",
            choices=(
                (AccessTokenFormat.JWT.value, translatable("JWT: the API verifies it itself")),
                (
                    AccessTokenFormat.REFERENCE.value,
                    translatable("Reference: the API introspects it"),
                ),
            ),
        ),
    ] = AccessTokenFormat.JWT
    """None for the default API alone: the client's registration decides."""
    access_token_lifetime: Annotated[
        Lifetime | None,
        ApiFieldRule(
            translatable("Lifetime of access tokens"),
            translatable("Leave empty for the default of the server."),
            _TOKENS,
            help="How long access tokens for the API are valid.",
            longest=_LONGEST_LIFETIME,
        ),
    ] = None
    """None where the client's registration decides."""
    signing_algorithm: Annotated[
        Algorithm,
        ApiFieldRule(
            translatable("Signing algorithm"),
            translatable("An algorithm that the API's library can verify."),
            _TOKENS,
            help="Algorithm with which access tokens for the API are signed.",
        ),
    ] = Algorithm.ES256

    def values(self) -> dict[str, Any]:
        """Return the declared values by field; those of a list once each."""
        values: dict[str, Any] = {name: getattr(self, name) for name in API_FIELDS}
        lists = {
            name for name, api_field in API_FIELDS.items() if api_field.type == tuple[str, ...]
        }
        return values | {name: tuple(dict.fromkeys(values[name])) for name in lists}


class ApiField(Struct, frozen=True):
    """A declared field with its type."""

    name: str
    type: Any
    default: object
    rule: ApiFieldRule


def _fields() -> Iterator[ApiField]:
    hints = get_type_hints(ApiMetadata, include_extras=True)
    for member in structs.fields(ApiMetadata):
        annotated = hints[member.name]
        default: object = member.default
        if default is NODEFAULT:
            default = "" if member.required else dict[str, str]()
        yield ApiField(member.name, annotated.__origin__, default, annotated.__metadata__[0])


API_FIELDS: Mapping[str, ApiField] = MappingProxyType(
    {api_field.name: api_field for api_field in _fields()}
)
"""The declared fields by name."""


class Api(ApiMetadata, frozen=True, kw_only=True):
    """One API. The default API is the operator's own, at `resource.url`; its id is "".

    What was granted in an earlier generation has ended.
    """

    id: str
    created_at: Instant
    changed_at: Instant
    disabled_at: Instant | None = None
    generation: int = 0

    @property
    def machine_scope(self) -> Scope:
        """What clients have of their own."""
        return Scope(self.machine_scopes)

    @property
    def metadata(self) -> ApiMetadata:
        """What is declared; change a field of it and pass it to `ApiRegistrar.change`."""
        return ApiMetadata(**self.values())

    @property
    def is_default(self) -> bool:
        """Whether this is the operator's own API."""
        return not self.id

    def admits(self, client: Client) -> bool:
        """Return whether the client may ask for this API."""
        return self.disabled_at is None and (self.clients is None or client.id in self.clients)

    @property
    def access(self) -> str:
        """Return the name under which a grant or a consent has this API without any of its scopes.

        The user allows it where a request names the API and none of its scopes; "" for the default
        API, which every grant may be for.
        """
        return self.qualified("")

    def qualified(self, name: str) -> str:
        """Return the name under which a grant or a consent stores this API's scope `name`.

        Two APIs may have scopes of one name, so the name is prefixed with the API's id and a `#`,
        which no scope of the default API contains.
        """
        return f"{self.id}#{name}" if self.id else name


def required_groups(client: Client, apis: Iterable[Api]) -> tuple[tuple[str, ...], ...]:
    """Return the groups that the client and each of the APIs require, without those of none."""
    required = (client.openid.required_groups, *(api.required_groups for api in apis))
    return tuple(groups for groups in required if groups)


@lru_cache(maxsize=4_096)
def unqualified(name: str) -> tuple[str, str]:
    """Return the id of the API and the plain name of a name in a grant; "" is the default API."""
    before, separator, after = name.partition("#")
    return (before, after) if separator else ("", name)


def generations(apis: Sequence[Api]) -> tuple[ApiGeneration, ...]:
    """Return what codes and grants keep of their APIs: nothing for the default API alone."""
    if len(apis) == 1:
        return ((apis[0].id, apis[0].generation),) if apis[0].id else ()
    return tuple((api.id, api.generation) for api in apis)


CLAIM_NAME = r"[A-Za-z](?:[A-Za-z0-9_.:/-]{0,198}[A-Za-z0-9_])?"
"""The pattern of a claim's name: a word, or a URL for one that is to be unique."""

LARGEST_CLAIMS = 8_192
"""Maximum size of the claims in one token in bytes of JSON, without those of the protocol."""

Claims = Mapping[str, object]

NO_CLAIMS: Claims = MappingProxyType({})


class ClaimLocation(StrEnum):
    """Where a claim can be."""

    ID_TOKEN = "id_token"
    USERINFO = "userinfo"
    ACCESS_TOKEN = "access_token"
    INTROSPECTION = "introspection"  # for the API of the token, as things are when it asks


class ReadsFor(Enum):
    """What is read for the value of a claim."""

    NOTHING = "nothing"  # the record of the user has it, or it is the same for all
    MEMBERSHIPS = "memberships"  # groups or roles; the value is a list as long as these
    UPSTREAM = "upstream"  # what providers sent at the last sign-in


class ClaimInputs(Protocol):
    """What the value of a claim is made from: one user at one API.

    `user` is None for a client's own token, which has no groups and no roles.
    """

    user: User | None

    def groups(self, prefix: str) -> Sequence[str]:
        """Return the user's groups whose names begin with `prefix`."""
        ...

    def roles(self, identifier: str) -> Sequence[str]:
        """Return the user's roles at the API with this identifier, "" for that of the token."""
        ...

    def upstream(self, server_id: str, name: str) -> object:
        """Return the claim that the other server sent at the last sign-in; None if it sent none."""
        ...


class ExtraClaim(Protocol):
    """A claim that a feature adds to tokens."""

    @property
    def name(self) -> str:
        """Its name in tokens."""
        ...

    @property
    def places(self) -> Collection[ClaimLocation]:
        """Where it can be."""
        ...

    @property
    def reads(self) -> ReadsFor:
        """What is read for its value."""
        ...

    def is_for(self, client_id: str, api: Api, scope: Collection[str]) -> bool:
        """Return whether tokens of this client, API and scope have it."""
        ...

    def value(self, inputs: ClaimInputs) -> object:
        """Return its value; None if the user has none."""
        ...
