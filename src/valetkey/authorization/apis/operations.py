"""Operations on APIs (protected resources): find, declare, change, disable, delete, secrets."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, cast

import msgspec
from msgspec import UNSET, UnsetType

from valetkey.authorization.actions.admin.permissions import CommandLine, Permission, require
from valetkey.authorization.actions.clients import Faults
from valetkey.authorization.apis.rules import ApiRegistrar
from valetkey.authorization.apis.storage import ApiSearch
from valetkey.authorization.model.api import API_FIELDS, Api, ApiField, ApiMetadata
from valetkey.authorization.model.client import CLIENT_SCOPE, AccessTokenFormat, Client
from valetkey.authorization.model.event.grants import (
    ApiChanged,
    ApiDisabled,
    ApiEnabled,
    ApiRegistered,
    ApiRemoved,
    ClientSecretEnded,
    ClientSecretIssued,
)
from valetkey.authorization.operations.client_records import NewSecret, SecretShown, SecretWanted
from valetkey.authorization.operations.client_state import SECRET_LIFETIMES
from valetkey.authorization.operations.operation import (
    PAGING,
    SORT,
    Button,
    ButtonField,
    Call,
    Command,
    Done,
    Moment,
    Operation,
    Option,
    QueryParameter,
    Result,
    Run,
    Services,
    limit_of,
    on,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.protocol.register.faults import NO_CONTROLS, matching
from valetkey.authorization.storage.search import ListOrder
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import converted, replace
from valetkey.kernel.secret import Prefix
from valetkey.kernel.text import translatable
from valetkey.kernel.url import canonical

ANY: Final = "any"
"""The text with which interfaces state that every client may request an API."""


def _type_of(field: ApiField) -> Any:
    """Return the type of a field in a body, with its bounds."""
    rule = field.rule
    line: Any = Annotated[
        str,
        msgspec.Meta(
            pattern=NO_CONTROLS, min_length=rule.shortest or None, max_length=rule.longest
        ),
    ]
    name: Any = str
    if rule.pattern:
        name = Annotated[str, matching(f"^{rule.pattern}$", rule.reason, without='# " \\')]
    described = {"description": rule.description} if rule.description else None
    listed = msgspec.Meta(max_length=rule.most, extra_json_schema=described)
    if field.type is str:
        return line
    if field.type == Mapping[str, str]:
        return Annotated[dict[name, line], listed]
    if field.type in (tuple[str, ...], frozenset[str] | None):
        return Annotated[list[name], listed]
    if field.type == Lifetime | None:
        seconds: Any = Annotated[int, msgspec.Meta(ge=1, le=rule.longest)]
        return seconds | None
    return AccessTokenFormat if field.type == AccessTokenFormat | None else field.type


def _shown_type(field: ApiField) -> Any:
    """Return the type of a field in a response."""
    if field.type == Lifetime | None:
        return int | None
    if field.type == Mapping[str, str]:
        return dict[str, str]
    if field.type in (tuple[str, ...], frozenset[str] | None):
        return list[str]
    return AccessTokenFormat if field.type == AccessTokenFormat | None else field.type


def _wanted(field: ApiField) -> tuple[str, object] | tuple[str, object, object]:
    """Return a field of a new API with its default."""
    kind = _type_of(field)
    if field.rule.shortest and field.type is str:
        return field.name, kind
    if field.type == frozenset[str] | None:
        return field.name, kind | UnsetType, UNSET
    is_list = field.type == tuple[str, ...]
    return field.name, kind, list[str]() if is_list else field.default


class ApiState(msgspec.Struct, frozen=True):
    """The state of an API, apart from what is declared."""

    api_id: str
    created_at: Moment
    changed_at: Moment
    disabled_at: Moment | None


ApiShown = msgspec.defstruct(
    "ApiShown",
    [(field.name, _shown_type(field)) for field in API_FIELDS.values()],
    bases=(ApiState,),
    namespace={"__doc__": "An API: everything about it but its secrets."},
    frozen=True,
)

ApiRead = msgspec.defstruct(
    "ApiRead",
    [("record", ApiShown), ("secrets", list[SecretShown])],
    namespace={
        "__doc__": "An API and its secrets for introspection, without the secrets themselves."
    },
    frozen=True,
)

_Items: Any = list[ApiShown]  # type: ignore[valid-type]
ApiList = msgspec.defstruct(
    "ApiList",
    [("items", _Items), ("next", str | None)],
    namespace={"__doc__": "APIs by identifier."},
    frozen=True,
)

ApiWanted = msgspec.defstruct(
    "ApiWanted",
    [_wanted(field) for field in API_FIELDS.values()],
    namespace={
        "__doc__": "An API to be declared. Without a lifetime its tokens live as long as others."
    },
    frozen=True,
    forbid_unknown_fields=True,
)

ApiChange = msgspec.defstruct(
    "ApiChange",
    [
        (field.name, _type_of(field) | UnsetType, UNSET)
        for field in API_FIELDS.values()
        if not field.rule.is_fixed
    ],
    namespace={"__doc__": "Changes of an API; omitted fields stay as they are."},
    frozen=True,
    forbid_unknown_fields=True,
)


def shown(api: Api) -> msgspec.Struct:
    """Return the API as interfaces show it, an `ApiShown`; a list without an end is `any`."""
    endless = {
        name: [ANY]
        for name, field in API_FIELDS.items()
        if field.type == frozenset[str] | None and getattr(api, name) is None
    }
    return converted(ApiShown, api, api_id=api.id, **endless)


def secrets_shown(credential: Client | None, now: Instant) -> list[SecretShown]:
    """Return the secrets of the API's credential."""
    secrets = () if credential is None else credential.secrets
    return [SecretShown(secret.id, secret.expires_at, secret.is_live(now)) for secret in secrets]


def changed_metadata(before: ApiMetadata, change: object) -> ApiMetadata:
    """Return `before` with the values of an `ApiWanted` or an `ApiChange`."""
    body = cast("msgspec.Struct", change)
    fields = {name: getattr(body, name) for name in body.__struct_fields__}
    values = {name: _declared(value, name) for name, value in fields.items() if value is not UNSET}
    return replace(before, **values)


def _declared(value: object, name: str) -> Any:
    if not isinstance(value, list):
        return value
    texts = cast("list[str]", value)
    if API_FIELDS[name].type == frozenset[str] | None:
        return None if ANY in texts else frozenset(texts)
    return tuple(texts)


ONE = "/apis/{api_id}"
_OPTIONS = tuple(
    Option(name, help=field.rule.help, duration=field.type == Lifetime | None)
    for name, field in API_FIELDS.items()
    if field.rule.help
)
_QUERY = (
    PAGING[0],
    QueryParameter(
        "cursor",
        "`next` of the previous page.",
        {"type": "string", "minLength": 1, "maxLength": 500},
    ),
    QueryParameter(
        "q",
        "Only APIs with this text in their name or identifier.",
        {"type": "string", "minLength": 1, "maxLength": 80},
    ),
    SORT,
)


def registrar_of(services: Services, channel: str) -> ApiRegistrar:
    """Return the registrar of APIs for changes through this channel."""
    settings, own = services.settings, services.claims.default
    return ApiRegistrar(
        own_identifiers=(settings.audience, settings.authorization.url),
        own_scopes=frozenset((*own.scopes, *own.machine_scopes, *CLIENT_SCOPE)),
        algorithms=settings.tokens.signing_algorithms,
        credentials=services.registrar(channel),
    )


def registrar(call: Call) -> ApiRegistrar:
    """Return the registrar of APIs for changes by this actor."""
    return registrar_of(call.services, "cli" if isinstance(call.actor, CommandLine) else "admin")


def list_apis(tx: Transaction, call: Call) -> Result:
    """List APIs by identifier, or in another order."""
    limit, after = limit_of(call.query), call.query.get("cursor", "")
    order = ListOrder(call.query["sort"]) if "sort" in call.query else None
    ids = ApiSearch(tx.db).page(after, limit + 1, call.query.get("q", ""), order)
    apis = [api for api_id in ids[:limit] if (api := tx.apis.find(api_id)) is not None]
    # As the list is sorted: with its slash it comes after others that belong behind it.
    last = (apis[-1].id if order else canonical(apis[-1].identifier)) if apis else ""
    after = last if len(ids) > limit else ""
    return Result(ApiList([shown(api) for api in apis], after or None), next=after)


def read_api(tx: Transaction, call: Call) -> Result:
    """Read one API."""
    api = _found(tx.apis.find(call.named("api_id")))
    record = shown(api)
    secrets = secrets_shown(tx.clients.find(api.id), call.now)
    return Result(ApiRead(record, secrets), etag=tag_of(record))


def declare_api(tx: Transaction, call: Call) -> Result | Faults:
    """Declare an API. Its credential has no secret until one is issued."""
    tx.apis.hold_all()
    require(tx, call.actor, call.operation.permission)
    metadata = changed_metadata(ApiMetadata(""), call.input(ApiWanted))
    made = registrar(call).register(tx, metadata, call.now, api_id=call.new_id("api"))
    return made if isinstance(made, tuple) else _shown(made)


def change_api(tx: Transaction, call: Call, api: Api) -> Result | Faults:
    """Change what an API declares, if it is still as the caller saw it."""
    call.preconditions.check(tag_of(shown(api)))
    metadata = changed_metadata(api.metadata, call.input(ApiChange))
    changed = registrar(call).change(tx, api, metadata, call.now)
    return changed if isinstance(changed, tuple) else _shown(changed)


def disable_api(tx: Transaction, call: Call, api: Api) -> bool:
    """Disable the API: everything issued for it ends. False if it was disabled."""
    return registrar(call).disable(tx, api, call.now)


def enable_api(tx: Transaction, call: Call, api: Api) -> bool:
    """Enable the API; what ended stays ended. False if it was enabled."""
    return registrar(call).enable(tx, api, call.now)


def delete_api(tx: Transaction, call: Call, api: Api) -> None:
    """Delete the API, its credential and everything issued for it."""
    registrar(call).remove(tx, api, call.now)


def issue_api_secret(tx: Transaction, call: Call, api: Api) -> NewSecret:
    """Issue a secret for introspection and the revocation feed.

    Refused (conflict) where two work already.
    """
    body = call.input(SecretWanted).others_live
    live = None if body is None else Lifetime(body)
    secret = call.new_secret(Prefix.CLIENT_SECRET)
    credentials, credential = registrar(call).credentials, tx.clients.find(api.id)
    if credential is None:
        raise no_such_api()
    if faults := credentials.issue_secret(tx, credential, secret, call.now, others_live=live):
        raise Refused.because(ErrorCode.CONFLICT, faults[0].detail, "admin.no_secret")
    return NewSecret(secret.reveal())


def end_api_secret(tx: Transaction, call: Call, api: Api) -> None:
    """Revoke one secret. Refused (not found) if it is not valid any more."""
    credential = tx.clients.find(api.id)
    ended = credential is not None and registrar(call).credentials.end_secret(
        tx, credential, call.named("secret_id"), call.now
    )
    if not ended:
        raise Refused.because(
            ErrorCode.NOT_FOUND, "this secret does not exist or has ended", "admin.secret"
        )


def _shown(api: Api) -> Result:
    record = shown(api)
    return Result(record, etag=tag_of(record))


def _found(api: Api | None) -> Api:
    if api is None:
        raise no_such_api()
    return api


def no_such_api() -> Refused:
    """Return the refusal of an API that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this API does not exist", "admin.api")


def _on_api(function: Callable[[Transaction, Call, Api], object]) -> Run:
    """Run the function on the API in the path; nothing is issued until the commit."""

    def checked(tx: Transaction, call: Call) -> object:
        # First: the role is checked with the actor's own account locked.
        tx.apis.hold_all()
        require(tx, call.actor, call.operation.permission)
        return function(tx, call, _found(tx.apis.find(call.named("api_id"))))

    return unchecked_write(checked)


LIST_APIS = Operation(
    "list_apis",
    "GET",
    "/apis",
    Permission.READ,
    "List declared APIs by identifier",
    reads(list_apis),
    output=ApiList,
    query=_QUERY,
    returns_list=True,
    commands=(
        Command(
            columns=(("ID", "api_id"), ("IDENTIFIER", "identifier"), ("NAME", "name")),
            empty="no API is declared but the server's own",
        ),
    ),
)
DECLARE_API = Operation(
    "create_api",
    "POST",
    "/apis",
    Permission.CLIENTS,
    "Declare an API",
    unchecked_write(declare_api),
    input=ApiWanted,
    output=ApiShown,
    status=201,
    returns_etag=True,
    event=ApiRegistered,
    commands=(
        Command(
            "api declare",
            example="--identifier https://mcp.example.com/mcp"
            """ --name Calendar --scopes '{"calendar:read": "see your calendar"}'""",
            options=_OPTIONS,
        ),
    ),
)
CHANGE_API = Operation(
    "change_api",
    "PATCH",
    ONE,
    Permission.CLIENTS,
    "Change what an API declares; its identifier stays",
    _on_api(change_api),
    input=ApiChange,
    output=ApiShown,
    requires_if_match=True,
    returns_etag=True,
    event=ApiChanged,
    commands=(Command(options=_OPTIONS, example="--access-token-lifetime 10m"),),
)
DELETE_API = Operation(
    "delete_api",
    "DELETE",
    ONE,
    Permission.CLIENTS,
    "Delete an API and everything issued for it",
    _on_api(delete_api),
    status=204,
    event=ApiRemoved,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete API"),
            translatable(
                "Tokens for this API stop working within seconds, and its secrets are revoked. "
                "Apps keep their access to other APIs. This cannot be undone."
            ),
            translatable("The API is deleted."),
            shown_for=on(Api),
            shows_impact=True,
            danger=True,
            irreversible=True,
        ),
    ),
    commands=(Command(question="Every token for {api_id} stops working. This cannot be undone."),),
)
ISSUE_API_SECRET = Operation(
    "create_api_secret",
    "POST",
    f"{ONE}/secrets",
    Permission.CLIENTS,
    "Issue a secret of the API for introspection and revocations, shown once",
    _on_api(issue_api_secret),
    input=SecretWanted,
    output=NewSecret,
    status=201,
    error_statuses=(409,),
    event=ClientSecretIssued,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "secret",
            translatable("Issue a secret"),
            translatable(
                "The API introspects tokens with this secret. It is shown once. Existing "
                "secrets work until they expire."
            ),
            translatable("A secret is issued."),
            shown_for=on(Api),
            fields=(
                ButtonField(
                    "others_live", translatable("Existing secrets expire"), SECRET_LIFETIMES
                ),
            ),
        ),
    ),
    commands=(
        Command(
            "api issue-secret",
            options=(
                Option("others_live", help="How long the other secrets still work.", duration=True),
            ),
        ),
    ),
)
END_API_SECRET = Operation(
    "delete_api_secret",
    "DELETE",
    f"{ONE}/secrets/{{secret_id}}",
    Permission.CLIENTS,
    "Revoke one secret of an API now",
    _on_api(end_api_secret),
    status=204,
    event=ClientSecretEnded,
    requires_recent_sign_in=True,
    buttons=(
        Button(
            "end-secret",
            translatable("Revoke secret"),
            translatable(
                "An API that still uses this secret can no longer introspect tokens or read "
                "revocations."
            ),
            translatable("The secret is revoked."),
            danger=True,
            carries=("secret", "secret_id"),
        ),
    ),
    commands=(Command("api end-secret", confirms=False),),
)
APIS = (
    LIST_APIS,
    DECLARE_API,
    Operation(
        "read_api",
        "GET",
        ONE,
        Permission.READ,
        "Show an API and its secrets for introspection",
        reads(read_api),
        output=ApiRead,
        returns_etag=True,
    ),
    CHANGE_API,
    Operation(
        "disable_api",
        "POST",
        f"{ONE}/disable",
        Permission.CLIENTS,
        "Disable an API: everything issued for it ends within seconds",
        _on_api(disable_api),
        output=Done,
        event=ApiDisabled,
        buttons=(
            Button(
                "disable",
                translatable("Disable API"),
                translatable(
                    "Tokens for this API stop working within seconds, and apps get no new ones. "
                    "Nothing is deleted. If you enable it again, users must authorize apps again."
                ),
                translatable("The API is disabled, and every token for it has ended."),
                shown_for=on(Api, lambda it: it.disabled_at is None),
                shows_impact=True,
                danger=True,
            ),
        ),
        commands=(Command(confirms=False),),
    ),
    Operation(
        "enable_api",
        "POST",
        f"{ONE}/enable",
        Permission.CLIENTS,
        "Enable an API; revoked tokens stay revoked",
        _on_api(enable_api),
        output=Done,
        event=ApiEnabled,
        buttons=(
            Button(
                "enable",
                translatable("Enable API"),
                translatable(
                    "Apps can get tokens for this API again. Earlier tokens stay invalid."
                ),
                translatable("The API is enabled."),
                shown_for=on(Api, lambda it: it.disabled_at is not None),
            ),
        ),
    ),
    DELETE_API,
    ISSUE_API_SECRET,
    END_API_SECRET,
)
