"""Operations on attributes of accounts and on claims of tokens, and the preview of tokens."""

from typing import Annotated

import msgspec

from valetkey.authorization.actions.admin.permissions import Permission, require
from valetkey.authorization.actions.attributes import attributes_of, change_attributes
from valetkey.authorization.claims.model import (
    AttributeDeclared,
    AttributeRemoved,
    ClaimDeclared,
    ClaimRemoved,
    Declarations,
    DeclaredClaim,
)
from valetkey.authorization.claims.rules import (
    Faults,
    declare_attribute,
    declare_claim,
    remove_attribute,
    remove_claim,
)
from valetkey.authorization.model.api import Api, ClaimLocation
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.accounts import UserChanged
from valetkey.authorization.model.user import ATTRIBUTE_NAME, MOST_ATTRIBUTES, Attribute, User
from valetkey.authorization.operations.operation import (
    Anything,
    Button,
    Call,
    Command,
    Done,
    Operation,
    Option,
    QueryParameter,
    Result,
    on,
    on_user,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.protocol.claims import OPENID, PASSWORD, claims_of_scope, user_claims
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, matching
from valetkey.authorization.protocol.resource import at, grantable
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import SignInRecord, Subjects, content
from valetkey.authorization.tokens.issue import (
    Granted,
    TokenPolicy,
    access_token_of,
    is_by_reference,
)
from valetkey.kernel.moment import later
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted
from valetkey.kernel.scope import Scope
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical

_ATTRIBUTE = "/attributes/{attribute}"
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
    dict[Annotated[str, matching(f"^{ATTRIBUTE_NAME}$", "attribute.name")], Anything],
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


def _list_attributes(tx: Transaction, call: Call) -> Result:
    """List the declared attributes by name."""
    del call
    return Result(
        AttributeList(
            [_attribute_shown(attribute) for attribute in Declarations.of(tx).attributes()]
        )
    )


def _declare_attribute(tx: Transaction, call: Call) -> bool | Faults:
    """Declare or change an attribute. False if it is declared so."""
    # First: the role is checked with the actor's own account locked.
    store = Declarations.of(tx)
    store.hold_all()
    require(tx, call.actor, call.operation.permission)
    body = call.input(AttributeWanted)
    attribute = Attribute(call.named("attribute"), body.label, dict(body.schema), body.editable)
    declared = {
        declaration.name: tag_of(_attribute_shown(declaration))
        for declaration in store.attributes()
    }
    call.preconditions.check(declared.get(attribute.name))
    return declare_attribute(tx, attribute, call.now)


def _remove_attribute(tx: Transaction, call: Call) -> bool:
    """Remove a declared attribute. Refused: not found."""
    Declarations.of(tx).hold_all()
    require(tx, call.actor, call.operation.permission)
    if not remove_attribute(tx, call.named("attribute"), call.now):
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this attribute does not exist", "attribute.unknown"
        )
    return True


def _attribute_shown(attribute: Attribute) -> AttributeShown:
    return converted(AttributeShown, attribute)


def read_user_attributes(tx: Transaction, call: Call, user: User) -> AttributesShown:
    """Read the values of a user's declared attributes."""
    return AttributesShown(attributes_of(user, Declarations.of(tx).attributes()))


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
    reads(_list_attributes),
    output=AttributeList,
    returns_list=True,
    commands=(Command(empty="No attribute is declared."),),
)

DECLARE_ATTRIBUTE = Operation(
    "set_attribute",
    "PUT",
    _ATTRIBUTE,
    Permission.CLIENTS,
    "Declare or change an attribute of accounts",
    unchecked_write(_declare_attribute),
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
    _ATTRIBUTE,
    Permission.CLIENTS,
    "Remove a declared attribute; its values are no longer shown",
    unchecked_write(_remove_attribute),
    output=Done,
    error_statuses=(409,),
    event=AttributeRemoved,
    buttons=(
        Button(
            "delete",
            translatable("Delete attribute"),
            translatable(
                "Profiles, imports and directories no longer show it. Values are kept, and appear "
                "again if an attribute of this name is declared later."
            ),
            translatable("The attribute is deleted."),
            danger=True,
            shown_for=on(AttributeShown),
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


_CLAIM = "/claims/{claim}"
_Source = Annotated[
    str,
    msgspec.Meta(
        pattern=NO_CONTROLS,
        min_length=1,
        max_length=1_100,
        description="attribute:NAME, groups, groups:PREFIX, roles, roles:API, constant:TEXT, "
        "email_domain, username, email or upstream:PROVIDER:NAME.",
    ),
]
_Texts = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=NO_CONTROLS, max_length=500)]],
    msgspec.Meta(max_length=100),
]


class ClaimShown(msgspec.Struct, frozen=True, rename={"source": "from", "places": "in"}):
    """A declared claim; empty `clients` and `apis` stand for all."""

    name: str
    source: str
    places: list[ClaimLocation]
    scope: str
    clients: list[str]
    apis: list[str]


class ClaimList(msgspec.Struct, frozen=True):
    """Declared claims by name."""

    items: list[ClaimShown]
    next: str | None = None


class ClaimWanted(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"source": "from", "places": "in"},
):
    """Input for a claim: its source, and the tokens that carry it."""

    source: _Source
    places: Annotated[
        list[ClaimLocation], msgspec.Meta(min_length=1, max_length=4, description="Where it is.")
    ]
    scope: Annotated[
        str,
        matching(r"^[!#-\[\]-~]*$", "scope.form", without='" \\'),
        msgspec.Meta(
            max_length=100,
            description="Only for tokens with this scope.",
        ),
    ] = ""
    clients: Annotated[
        _Texts, msgspec.Meta(extra_json_schema={"description": "Only for these client ids."})
    ] = []
    apis: Annotated[
        _Texts, msgspec.Meta(extra_json_schema={"description": "Only for these APIs."})
    ] = []


def _list_claims(tx: Transaction, call: Call) -> Result:
    """List the declared claims by name."""
    return Result(ClaimList([_claim_shown(claim) for claim in Declarations.of(tx).claims()]))


def _declare_claim(tx: Transaction, call: Call) -> bool | Faults:
    """Declare or change a claim. False if it is declared so."""
    # First: the role is checked with the actor's own account locked.
    store = Declarations.of(tx)
    store.hold_all()
    require(tx, call.actor, call.operation.permission)
    body = call.input(ClaimWanted)
    claim = DeclaredClaim(
        call.named("claim"),
        body.source,
        tuple(location for location in ClaimLocation if location in body.places),
        body.scope,
        frozenset(body.clients),
        frozenset(body.apis),
    )
    declared = {
        declaration.name: tag_of(_claim_shown(declaration)) for declaration in store.claims()
    }
    call.preconditions.check(declared.get(claim.name))
    return declare_claim(tx, claim, call.services.settings.audience, call.now)


def _remove_claim(tx: Transaction, call: Call) -> bool:
    """Remove a declared claim. Refused: not found."""
    Declarations.of(tx).hold_all()
    require(tx, call.actor, call.operation.permission)
    if not remove_claim(tx, call.named("claim"), call.now):
        raise Refused.because(ErrorCode.NOT_FOUND, "this claim does not exist", "claim.unknown")
    return True


def _claim_shown(claim: DeclaredClaim) -> ClaimShown:
    return converted(ClaimShown, claim)


_Claims = dict[str, Anything]


class ClaimsPreview(msgspec.Struct, frozen=True):
    """The content of each token; null for tokens that the scope does not give.

    Identifiers and times of a single token are placeholders: `jti`, `grant_id`, `iat`, `exp`.
    """

    scope: str
    api: str
    access_token_format: Annotated[
        str, msgspec.Meta(description="For `reference`, introspection shows these claims.")
    ]
    access_token: _Claims
    id_token: _Claims | None
    userinfo: _Claims | None
    introspection: Annotated[
        _Claims, msgspec.Meta(description="What introspection adds for the API of the token.")
    ]


async def preview_claims(call: Call) -> Result:
    """Return what the tokens of a user for a client and an API would hold."""
    store, claims = call.services.store, call.services.claims
    preview = await claims.supply(lambda: store.scan(lambda tx: _preview(tx, call)))
    return Result(preview)


def _preview(tx: Transaction, call: Call) -> ClaimsPreview:
    require(tx, call.actor, Permission.READ)
    user, client = tx.users.find(call.uid), tx.clients.find(call.named("client_id"))
    if user is None or not user.email:
        raise Refused.because(ErrorCode.NOT_FOUND, "this user does not exist", "admin.user")
    if client is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "this app does not exist", "admin.client")
    api = _api(tx, call)
    has_api = api.admits(client)
    allowed = at(api, grantable(client, (api,) if has_api else ()))
    scope = Scope.parse(call.query["scope"]) & allowed if "scope" in call.query else allowed
    services, now = call.services, call.now
    granted = Granted(
        client=client,
        api=api,
        scope=scope,
        token_id="at_…",
        issued_at=now,
        expires_at=later(now, TokenPolicy.of(services.settings).lifetime_of(client, api)),
        user=user,
        grant_id="gr_…",
        auth_time=now,
        claims=services.claims.of_access_token(tx, client.id, api, scope, user),
    )
    issuer, subjects = services.settings.authorization.url, Subjects(services.fingerprints)
    identity = SignInRecord(
        user=user,
        client=client,
        auth_time=now,
        methods=(PASSWORD,),
        scope=scope,
        with_scope_claims=client.has_scope_claims_in_id_token,
    )
    identity = services.claims.of_identity(tx, identity, api)
    is_openid = OPENID in scope
    lifetime = services.settings.tokens.id_token_lifetime
    return ClaimsPreview(
        scope=str(scope),
        api=api.identifier,
        access_token_format="reference" if is_by_reference(client, api) else "jwt",
        access_token=dict(access_token_of(granted, issuer).content()),
        id_token=content(identity, now, issuer, subjects, lifetime) if is_openid else None,
        # Tokens for other APIs are none for userinfo.
        userinfo=_userinfo(tx, call, user, client, scope) if is_openid and api.is_default else None,
        introspection=dict(
            services.claims.of_introspection(
                tx, services.claims.declared(tx), client.id, api, scope, user
            )
        ),
    )


def _userinfo(
    tx: Transaction, call: Call, user: User, client: Client, scope: Scope
) -> dict[str, object]:
    names = claims_of_scope(scope)
    subject = Subjects(call.services.fingerprints).subject_of(user, client)
    stored = call.services.claims.of_userinfo(tx, user, client.id, scope, names)
    return {"sub": subject} | user_claims(user, names) | dict(stored)


def _api(tx: Transaction, call: Call) -> Api:
    default, identifier = call.services.claims.default, call.query.get("api", "")
    if not identifier or canonical(identifier) == canonical(default.identifier):
        return default
    api = tx.apis.find_by_key(canonical(identifier)) if identifier.isprintable() else None
    if api is None:
        raise Refused.because(ErrorCode.NOT_FOUND, "this API does not exist", "admin.api")
    return api


PREVIEW = Operation(
    "preview_claims",
    "GET",
    "/users/{uid}/claims/{client_id}",
    Permission.READ,
    "What the tokens of a user for an app would contain now",
    preview_claims,
    description="Nothing is issued, and whether the user may sign in there is not judged.",
    output=ClaimsPreview,
    query=(
        QueryParameter(
            "api",
            "The identifier of an API; the server's own without it.",
            {"type": "string", "minLength": 1, "maxLength": 500},
        ),
        QueryParameter(
            "scope",
            "Scope names separated by spaces; all that the app may have without it.",
            {"type": "string", "minLength": 1, "maxLength": 1_000},
        ),
    ),
    commands=(
        Command(
            "claims preview",
            summary="Show what the tokens of a user for an app would contain now",
            help="Nothing is issued. Identifiers and times that differ in each token are examples.",
            example="--user ada --client grafana",
            options=(
                Option("uid", "--user"),
                Option("client_id", "--client", "The id of the app."),
                Option("api", help="The identifier of an API; the server's own by default."),
                Option("scope", help="Separated by spaces; by default, all that the app may have."),
            ),
            columns=(("scope", "scope"), ("api", "api")),
            documents=("access_token", "id_token", "userinfo"),
        ),
    ),
)

LIST_CLAIMS = Operation(
    "list_claims",
    "GET",
    "/claims",
    Permission.READ,
    "List declared claims of tokens",
    reads(_list_claims),
    output=ClaimList,
    returns_list=True,
    commands=(Command("claims list", empty="No claim is declared."),),
)

DECLARE_CLAIM = Operation(
    "set_claim",
    "PUT",
    _CLAIM,
    Permission.CLIENTS,
    "Declare or change a claim of tokens",
    unchecked_write(_declare_claim),
    description="New tokens contain it.",
    input=ClaimWanted,
    output=Done,
    event=ClaimDeclared,
    commands=(
        Command(
            "claims declare",
            example="--from attribute:department --in id_token --in userinfo",
            done="The claim {claim} is declared.",
            unchanged="The claim {claim} is declared like this; nothing changed.",
        ),
    ),
)

REMOVE_CLAIM = Operation(
    "delete_claim",
    "DELETE",
    _CLAIM,
    Permission.CLIENTS,
    "Remove a declared claim; tokens that were issued keep it",
    unchecked_write(_remove_claim),
    output=Done,
    event=ClaimRemoved,
    buttons=(
        Button(
            "delete",
            translatable("Delete claim"),
            translatable(
                "New tokens do not contain it. Apps that rely on it may refuse users. "
                "Tokens that were issued keep it until they expire."
            ),
            translatable("The claim is deleted."),
            danger=True,
            shown_for=on(ClaimShown),
        ),
    ),
    commands=(
        Command(
            "claims remove",
            question="Remove this claim? Apps that rely on it may refuse users.",
            done="The claim {claim} is removed.",
        ),
    ),
)

CLAIMS = (
    PREVIEW,
    LIST_CLAIMS,
    DECLARE_CLAIM,
    REMOVE_CLAIM,
)
