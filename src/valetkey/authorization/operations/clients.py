"""Operations on clients: find, register, change."""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

from valetkey.authorization.actions.admin import search
from valetkey.authorization.actions.admin.permissions import CommandLine, Permission, require
from valetkey.authorization.actions.admin.search import Faults
from valetkey.authorization.actions.clients import (
    Registrar,
    affects_sector,
    changed_labels,
    metadata_of,
)
from valetkey.authorization.email.notices import AppChange, Notices
from valetkey.authorization.model.client import (
    DISCOURAGED,
    Client,
    ClientType,
    ProfileName,
    is_by_secret,
)
from valetkey.authorization.model.event.grants import ClientChanged, ClientRegistered
from valetkey.authorization.model.user import Uid
from valetkey.authorization.operations.client_records import (
    ClientChange,
    ClientList,
    ClientMade,
    ClientRead,
    ClientWanted,
    LocalRegistration,
    changed_metadata,
    read,
    shown,
    summary,
    wanted_metadata,
)
from valetkey.authorization.operations.operation import (
    PAGING,
    Call,
    Command,
    InvalidInput,
    Operation,
    QueryParameter,
    Result,
    cursor,
    limit_of,
    on_client,
    place_of,
    reads,
    tag_of,
    unchecked_write,
)
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata
from valetkey.authorization.protocol.register.client_rules import ClientRules
from valetkey.authorization.protocol.register.faults import fault
from valetkey.authorization.protocol.register.self_registration import LeftOut, Reduced, reduced
from valetkey.authorization.storage.search import ClientFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.replace import replace
from valetkey.kernel.secret import Prefix, Secret

_YES_NO = {"type": "boolean"}
_FILTERS = (
    QueryParameter(
        "q",
        "Part of the name, or the beginning of the client_id.",
        {"type": "string", "minLength": 1, "maxLength": 80},
    ),
    QueryParameter(
        "type", "Only of this type.", {"type": "string", "enum": [e.value for e in ClientType]}
    ),
    QueryParameter(
        "profile",
        "Only with this profile.",
        {"type": "string", "enum": [e.value for e in ProfileName]},
    ),
    QueryParameter("disabled", "Only disabled clients, or only the others.", _YES_NO),
    QueryParameter("verified", "Only verified clients, or only the others.", _YES_NO),
    QueryParameter("self_registered", "Only those that registered themselves, or others.", _YES_NO),
    QueryParameter("legacy", "Only those with a legacy grant type, or only the others.", _YES_NO),
)
ONE = "/clients/{client_id}"


def registrar(call: Call) -> Registrar:
    """Return the registrar for changes by this actor."""
    channel = "cli" if isinstance(call.actor, CommandLine) else "admin"
    return call.services.registrar(channel)


def with_notices(
    change: AppChange, function: Callable[[Transaction, Call, Client], object]
) -> Callable[[Transaction, Call, Client], object]:
    """Notify the owners of the client, those before and after, of what the function changes."""

    def run(tx: Transaction, call: Call, client: Client) -> object:
        before = _owners(tx, client)
        result = function(tx, call, client)
        after = tx.clients.find(client.id) if change is AppChange.EDITED else None
        fields = () if after is None else changed_labels(client, after)
        if _has_changed(result) and (fields or change is not AppChange.EDITED):
            Notices(call.services.links.issuer, call.services.outbox).app_changed(
                tx,
                client,
                change,
                before | _owners(tx, client),
                call.now,
                fields=fields,
                about=call.uid if "uid" in call.arguments else None,
            )
        return result

    return run


def _has_changed(result: object) -> bool:
    """Return whether a function of an operation did what it is for: faults and False say no."""
    return result is not False and not isinstance(result, tuple)


def _owners(tx: Transaction, client: Client) -> frozenset[Uid]:
    return frozenset(member.uid for member in tx.members.team(client.id) if member.owns)


def list_clients(tx: Transaction, call: Call) -> Result:
    """List clients, newest first."""
    query = call.query
    criteria = ClientFilter(
        text=query.get("q", ""),
        type=query.get("type"),
        profile=query.get("profile"),
        disabled=_flag(query, "disabled"),
        verified=_flag(query, "verified"),
        self_registered=_flag(query, "self_registered"),
        legacy=_flag(query, "legacy"),
    )
    page = search.search(tx, call.actor, criteria, place_of(query), limit_of(query))
    after = cursor(page.after)
    return Result(ClientList([summary(line) for line in page.lines], after or None), next=after)


def _flag(query: Mapping[str, str], name: str) -> bool | None:
    """Return the value of a boolean parameter; None where it is absent."""
    value = query.get(name)
    return None if value is None else value == "true"


def read_client(tx: Transaction, call: Call) -> Result:
    """Read one client."""
    held = search.find_details(tx, call.actor, call.named("client_id"), call.now)
    record = shown(held.client, call.now)
    return Result(read(held, record), etag=tag_of(record))


def register_client(tx: Transaction, call: Call) -> Result | Faults:
    """Register a client, with a secret if it needs one. Legacy grant types are enabled later."""
    tx.clients.touch()
    require(tx, call.actor, call.operation.permission)
    metadata = wanted_metadata(call.body)
    kept = _kept(call, registrar(call).rules_for(tx, metadata), metadata, None)
    metadata = kept.metadata
    if kept.faults:
        return kept.faults
    needs = is_by_secret(metadata.proof)
    secret = call.new_secret(Prefix.CLIENT_SECRET) if needs else None
    chosen = call.body.client_id if isinstance(call.body, LocalRegistration) else ""
    client_id = chosen or call.new_id("client")
    made = registrar(call).register(tx, metadata, call.now, client_id=client_id, secret=secret)
    return made if isinstance(made, tuple) else _made(made, secret, call, kept.left_out)


def _kept(
    call: Call, rules: ClientRules, metadata: ClientMetadata, before: Client | None
) -> Reduced:
    """Return what can be registered: for a program what can be kept, otherwise all or nothing."""
    had = before.grant_types if before else ()

    def judge(it: ClientMetadata) -> Faults:
        return (*_legacy_faults(call, it, had), *rules.faults(it))

    if not call.by_program:
        return Reduced(metadata, (), judge(metadata))
    return reduced(metadata, judge, metadata_of(before) if before else ClientMetadata(name=""))


async def _require_sector(call: Call, metadata: ClientMetadata, before: Client | None) -> None:
    """Raise InvalidInput unless the sector that the client names lists its redirect URIs."""
    rules = registrar(call).rules
    metadata = _kept(call, rules, metadata, before).metadata
    faults = await call.services.sectors.faults_within(rules, metadata, before)
    if faults:
        raise InvalidInput(faults)


async def _register(call: Call) -> Result:
    await _require_sector(call, wanted_metadata(call.body), None)
    return await _register_checked(call)


_register_checked = unchecked_write(register_client)


async def _change(call: Call) -> Result:
    before = await call.services.store.read(lambda tx: tx.clients.find(call.named("client_id")))
    if before is not None:
        await _require_sector(call, changed_metadata(before, call.body), before)
    return await on_client(with_notices(AppChange.EDITED, partial(change_client, before)))(call)


def change_client(
    checked: Client | None, tx: Transaction, call: Call, client: Client
) -> Result | Faults:
    """Change what a client registered, if it is still as the caller saw it.

    A secret that it needs from now on is issued. The sector was judged by `checked`.
    """
    now = call.now
    call.preconditions.check(tag_of(shown(client, now)))
    metadata = changed_metadata(client, call.body)
    rules = registrar(call).rules_for(tx, metadata, client.scope)
    kept = _kept(call, rules, metadata, client)
    metadata = kept.metadata
    if kept.faults:
        return kept.faults
    if checked != client and affects_sector(metadata, client):
        return (fault("sector_identifier_uri", "sector.changed"),)
    changed = registrar(call).change(tx, client, metadata, now)
    if isinstance(changed, tuple):
        return changed
    useful = [s for s in changed.secrets if s.sealed or not changed.signs_with_secret]
    if not changed.has_secret or any(secret.is_live(now) for secret in useful):
        return _made(changed, None, call, kept.left_out)
    secret = call.new_secret(Prefix.CLIENT_SECRET)
    faults = registrar(call).issue_secret(tx, changed, secret, now, others_live=Lifetime(0))
    return faults or _made(changed, secret, call, kept.left_out)


def _made(client: Client, secret: Secret | None, call: Call, left_out: Sequence[LeftOut]) -> Result:
    record = shown(client, call.now)
    made = ClientMade(record, secret.reveal() if secret else None, list(left_out))
    return Result(made, etag=tag_of(record))


def _legacy_faults(call: Call, metadata: ClientMetadata, had: Collection[str]) -> Faults:
    for number, name in enumerate(metadata.grant_types):
        if name in DISCOURAGED and name not in had:
            error = fault(f"grant_types/{number}", "grant.later", name=name)
            if isinstance(call.actor, CommandLine):
                detail = f"{error.detail}; see: valetkey client allow-{name} --help"
                error = replace(error, detail=detail)
            return (error,)
    return ()


REGISTER = Operation(
    "create_client",
    "POST",
    "/clients",
    Permission.CLIENTS,
    "Register a client; its secret is shown once",
    _register,
    input=ClientWanted,
    output=ClientMade,
    status=201,
    returns_etag=True,
    event=ClientRegistered,
    commands=(),
)
CHANGE = Operation(
    "change_client",
    "PATCH",
    ONE,
    Permission.CLIENTS,
    "Change what a client registered",
    _change,
    description="If it now needs a secret, one is generated and shown once.",
    input=ClientChange,
    output=ClientMade,
    requires_if_match=True,
    returns_etag=True,
    event=ClientChanged,
    requires_recent_sign_in=True,
    commands=(),
)

CLIENTS = (
    Operation(
        "list_clients",
        "GET",
        "/clients",
        Permission.READ,
        "List clients, newest first",
        reads(list_clients),
        description="Credentials of APIs and of the resource server are no apps and not listed. A "
        "search looks at 2,000 clients at a time: continue while there is a `next`.",
        output=ClientList,
        query=(*_FILTERS, *PAGING),
        returns_list=True,
        commands=(
            Command(
                columns=(
                    ("CLIENT_ID", "client_id"),
                    ("NAME", "name"),
                    ("TYPE", "type"),
                    ("PROFILE", "profile"),
                    ("GRANT TYPES", "grant_types"),
                    ("CREATED", "created_at"),
                    ("DISABLED", "disabled_at"),
                ),
                help="With several filters, a client has to match all of them.",
                empty="There are no clients yet. Next: valetkey client create --help",
            ),
        ),
    ),
    REGISTER,
    Operation(
        "read_client",
        "GET",
        ONE,
        Permission.READ,
        "One client, its team, and how many users depend on it",
        reads(read_client),
        output=ClientRead,
        returns_etag=True,
        commands=(),
    ),
    CHANGE,
)
