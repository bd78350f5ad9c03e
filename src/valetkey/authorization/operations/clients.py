"""Operations on clients: find, register, change, disable, verify, delete."""

from collections.abc import Collection

from valetkey.authorization.actions.admin import clients
from valetkey.authorization.actions.admin.clients import LEGACY, Faults
from valetkey.authorization.actions.admin.permissions import CommandLine, Permission, require
from valetkey.authorization.actions.clients import Registrar
from valetkey.authorization.actions.registrations import adopt
from valetkey.authorization.model.event.clients import (
    ClientAdopted,
    ClientDisabled,
    ClientEnabled,
    ClientRemoved,
    ClientVerificationEnded,
    ClientVerified,
)
from valetkey.authorization.model.register.client import BY_SECRET, Client, ClientType
from valetkey.authorization.model.register.profile import ProfileName
from valetkey.authorization.operations.client_records import (
    ClientChange,
    ClientList,
    ClientMade,
    ClientRead,
    ClientWanted,
    changed_metadata,
    read,
    shown,
    summary,
    wanted_metadata,
)
from valetkey.authorization.operations.operation import (
    Button,
    Call,
    InvalidInput,
    Operation,
    Parameter,
    Result,
    on_client,
    reads,
    unchecked_write,
)
from valetkey.authorization.operations.paging import PAGING, cursor, flag, limit_of, place_of
from valetkey.authorization.operations.records import Done, tag_of
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, MetadataError
from valetkey.authorization.storage.administration.client_search import ClientFilter
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Lifetime
from valetkey.kernel.secret import Prefix, Secret
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Response

_YES_NO = {"type": "boolean"}
_FILTERS = (
    Parameter(
        "q",
        "A part of the name, or how the client_id begins.",
        {"type": "string", "minLength": 1, "maxLength": 80},
    ),
    Parameter("type", "Only these.", {"type": "string", "enum": [e.value for e in ClientType]}),
    Parameter("profile", "Only these.", {"type": "string", "enum": [e.value for e in ProfileName]}),
    Parameter("disabled", "Only disabled clients, or only the others.", _YES_NO),
    Parameter("verified", "Only verified clients, or only the others.", _YES_NO),
    Parameter("self_registered", "Only those that registered themselves, or others.", _YES_NO),
    Parameter("legacy", "Only those with a legacy grant type, or only the others.", _YES_NO),
)
ONE = "/clients/{client_id}"


def registrar(call: Call) -> Registrar:
    """Return the registrar for changes by this actor."""
    door = "cli" if isinstance(call.actor, CommandLine) else "admin"
    return call.services.registrar(door)


def list_clients(tx: Transaction, call: Call) -> Result:
    """List clients, newest first."""
    query = call.query
    wanted = ClientFilter(
        text=query.get("q", ""),
        type=query.get("type"),
        profile=query.get("profile"),
        disabled=flag(query, "disabled"),
        verified=flag(query, "verified"),
        self_registered=flag(query, "self_registered"),
        legacy=flag(query, "legacy"),
    )
    found = clients.search(tx, call.actor, wanted, place_of(query), limit_of(query))
    after = cursor(found.after)
    return Result(ClientList([summary(line) for line in found.lines], after or None), next=after)


def read_client(tx: Transaction, call: Call) -> Result:
    """Read one client."""
    held = clients.look(tx, call.actor, call.named("client_id"), call.now)
    record = shown(held.client, call.now)
    return Result(read(held, record), etag=tag_of(record))


def register_client(tx: Transaction, call: Call) -> Result | Faults:
    """Register a client, with a secret if it needs one. Legacy grant types are enabled later."""
    tx.clients.touch()
    require(tx, call.actor, call.operation.permission)
    metadata = wanted_metadata(call.input(ClientWanted))
    if faults := _legacy_faults(metadata, ()):
        return faults
    needs = metadata.proof in BY_SECRET
    secret = call.new_secret(Prefix.CLIENT_SECRET) if needs else None
    made = registrar(call).register(
        tx, metadata, call.now, client_id=call.new_id("client"), secret=secret
    )
    return made if isinstance(made, tuple) else _made(made, secret, call)


async def _register(call: Call) -> Result | Response:
    # The sector document is fetched before the transaction.
    metadata = wanted_metadata(call.input(ClientWanted))
    if faults := await call.services.sectors.faults(metadata):
        raise InvalidInput(faults)
    return await _register_checked(call)


_register_checked = unchecked_write(register_client)


def change_client(tx: Transaction, call: Call, client: Client) -> Result | Faults:
    """Change what a client registered, if it is still as the caller saw it.

    A secret that it needs from now on is issued.
    """
    now = call.now
    call.preconditions.check(tag_of(shown(client, now)))
    metadata = changed_metadata(client, call.input(ClientChange))
    if faults := _legacy_faults(metadata, client.grant_types):
        return faults
    changed = registrar(call).change(tx, client, metadata, now)
    if isinstance(changed, tuple):
        return changed
    useful = [s for s in changed.secrets if s.sealed or not changed.signs_with_secret]
    if not changed.has_secret or any(secret.is_live(now) for secret in useful):
        return _made(changed, None, call)
    secret = call.new_secret(Prefix.CLIENT_SECRET)
    faults = registrar(call).issue_secret(tx, changed, secret, now, others_live=Lifetime(0))
    return faults or _made(changed, secret, call)


def _made(client: Client, secret: Secret | None, call: Call) -> Result:
    record = shown(client, call.now)
    return Result(ClientMade(record, secret.reveal() if secret else None), etag=tag_of(record))


def _legacy_faults(metadata: ClientMetadata, had: Collection[str]) -> Faults:
    for number, name in enumerate(metadata.grant_types):
        if name in LEGACY and name not in had:
            detail = f"{name} is switched on by itself, once it is registered"
            return (MetadataError(f"grant_types/{number}", detail),)
    return ()


def delete_client(tx: Transaction, call: Call, client: Client) -> None:
    """Delete the client and everything it holds, and dissolve its team."""
    registrar(call).remove(tx, client, call.now, because="deleted")
    tx.members.dissolve(client.id, call.now)


def adopt_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Make a self-registered client the operator's own. False if it is."""
    return adopt(tx, client.id, call.now)


def disable_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Disable the client: everything it holds ends. False if it was disabled."""
    return registrar(call).disable(tx, client, call.now)


def enable_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Enable the client; what ended stays ended. False if it was enabled."""
    return registrar(call).enable(tx, client, call.now)


def verify_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Mark the client as verified. False if it was."""
    if not tx.clients.verify(client.id, call.now):
        return False
    tx.events.add(ClientVerified(client.id), call.now)
    return True


def unverify_client(tx: Transaction, call: Call, client: Client) -> bool:
    """Remove the verified mark. False if there was none."""
    if not tx.clients.unverify(client.id):
        return False
    tx.events.add(ClientVerificationEnded(client.id, "administrator"), call.now)
    return True


VERIFY = Operation(
    "verify_client",
    "PUT",
    f"{ONE}/verified",
    Permission.CLIENTS,
    "Mark a client as verified: users are told that you know who runs it",
    on_client(verify_client),
    gives=Done,
    refuses=(404,),
    event=ClientVerified,
    buttons=(
        Button(
            "verify",
            translatable("Mark as verified"),
            translatable(
                "Every user whom the app asks for access reads that you know who runs it. Look at "
                "its redirect URIs first. The mark ends when somebody else changes the name, the "
                "logo or a redirect URI."
            ),
            translatable("The app is verified."),
            for_client=lambda it: it.verified_at is None,
        ),
    ),
)
UNVERIFY = Operation(
    "unverify_client",
    "DELETE",
    f"{ONE}/verified",
    Permission.CLIENTS,
    "Remove the verified mark",
    on_client(unverify_client),
    gives=Done,
    refuses=(404,),
    event=ClientVerificationEnded,
    buttons=(
        Button(
            "unverify",
            translatable("Remove verified mark"),
            translatable("Users are asked as before, without the mark."),
            translatable("The verified mark is removed."),
            for_client=lambda it: it.verified_at is not None,
        ),
    ),
)
ADOPT = Operation(
    "adopt_client",
    "POST",
    f"{ONE}/adopt",
    Permission.CLIENTS,
    "Adopt a self-registered client as your own",
    on_client(adopt_client),
    gives=Done,
    refuses=(404,),
    event=ClientAdopted,
    buttons=(
        Button(
            "adopt",
            translatable("Adopt app"),
            translatable(
                "The app can no longer change its registration, neither with its token nor through "
                "the API, and it stays when nobody uses it. Users are no longer told that it "
                "registered itself."
            ),
            translatable("The app is your own."),
            for_client=lambda it: it.self_registered,
        ),
    ),
)
DISABLE = Operation(
    "disable_client",
    "POST",
    f"{ONE}/disable",
    Permission.CLIENTS,
    "Disable a client: everything it holds ends within seconds",
    on_client(disable_client),
    gives=Done,
    refuses=(404,),
    event=ClientDisabled,
    buttons=(
        Button(
            "disable",
            translatable("Disable app"),
            translatable(
                "Everything that the app holds stops working within seconds. Nothing is deleted. "
                "If you enable it again, users have to be asked again."
            ),
            translatable("The app is disabled, and everything that it held has ended."),
            for_client=lambda it: it.disabled_at is None,
            ends=True,
            danger=True,
        ),
    ),
)
ENABLE = Operation(
    "enable_client",
    "POST",
    f"{ONE}/enable",
    Permission.CLIENTS,
    "Enable a client; what ended stays ended",
    on_client(enable_client),
    gives=Done,
    refuses=(404,),
    event=ClientEnabled,
    buttons=(
        Button(
            "enable",
            translatable("Enable app"),
            translatable("The app can ask users for access again. What ended stays ended."),
            translatable("The app is enabled."),
            for_client=lambda it: it.disabled_at is not None,
        ),
    ),
)
DELETE = Operation(
    "delete_client",
    "DELETE",
    ONE,
    Permission.CLIENTS,
    "Delete a client and everything it holds; its id is never given again",
    on_client(delete_client),
    status=204,
    refuses=(404,),
    event=ClientRemoved,
    recent=True,
    buttons=(
        Button(
            "delete",
            translatable("Delete app"),
            translatable(
                "The app, its secrets, its team and everything that users allowed it are deleted. "
                "Its client id is never given again. This cannot be undone."
            ),
            translatable("The app is deleted."),
            for_client=lambda _: True,
            ends=True,
            danger=True,
        ),
    ),
)

CLIENTS = (
    Operation(
        "list_clients",
        "GET",
        "/clients",
        Permission.READ,
        "Clients, newest first",
        reads(list_clients),
        description="A search looks at 2,000 clients at a time: follow `next` while there is one.",
        gives=ClientList,
        query=(*_FILTERS, *PAGING),
        lists=True,
    ),
    Operation(
        "register_client",
        "POST",
        "/clients",
        Permission.CLIENTS,
        "Register a client; its secret is shown this once",
        _register,
        takes=ClientWanted,
        gives=ClientMade,
        status=201,
        tagged=True,
    ),
    Operation(
        "read_client",
        "GET",
        ONE,
        Permission.READ,
        "One client, its team, and how many users depend on it",
        reads(read_client),
        gives=ClientRead,
        tagged=True,
        refuses=(404,),
    ),
    Operation(
        "change_client",
        "PATCH",
        ONE,
        Permission.CLIENTS,
        "Change what a client registered",
        on_client(change_client),
        description="A secret that it needs from now on is made and shown this once.",
        takes=ClientChange,
        gives=ClientMade,
        guarded=True,
        tagged=True,
        refuses=(404,),
    ),
    VERIFY,
    UNVERIFY,
    ADOPT,
    DISABLE,
    ENABLE,
    DELETE,
)
