"""Records that the resource API reads and changes, and the credential of the resource server."""

import builtins
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeVar, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from valetkey.authorization.actions.clients import Registrar, metadata_of
from valetkey.authorization.actions.users import Accounts, UserRecord, withdraw
from valetkey.authorization.model.api import Api, unqualified
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, client_without_rights
from valetkey.authorization.model.event.grants import ClientRegistered
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.model.user import TEXT_CLAIMS, Address, StandardClaims, Uid, User
from valetkey.authorization.protocol.client_authentication.client_secret import secret_purpose
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.resource import scope_record
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.read import Read
from valetkey.config.paths import credential_path
from valetkey.config.settings import Settings
from valetkey.kernel.keyring import create_or_read_secret_file
from valetkey.kernel.moment import Instant, days
from valetkey.kernel.refusal import ErrorCode, OperatorError, Refusal
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.secret import Secret, same
from valetkey.kernel.text import translatable

MOST_LISTED = 1_000
"""Maximum number of authorizations listed for a user, newest first; the API documents it."""

T = TypeVar("T", "ClientChanges", "AccountChanges")

AddressPart = Literal["formatted", "street_address", "locality", "region", "postal_code", "country"]
Record = dict[str, object]
Said = dict[str, object]
Changes = dict[str, object]


class RecordRequest(Struct, frozen=True):
    """A request to the records API, with the token that authorizes it. Never printed.

    A change applies only to the `expected` version of the record, if one is given.
    """

    access_token: str
    object: str
    verb: str
    id: str = ""
    changes: Changes = field(default_factory=dict[str, builtins.object])
    expected: Changes | None = None


class Rejected(Struct, frozen=True):
    """A change that breaks rules; nothing was changed."""

    faults: tuple[MetadataError, ...]

    @property
    def refusal(self) -> Refusal:
        """Return the errors as one refusal."""
        return Refusal(
            ErrorCode.INVALID_REQUEST,
            "the record cannot be changed like this",
            "record.invalid",
            "; ".join(f"{fault.field}: {fault.detail}" for fault in self.faults),
        )


class ClientChanges(Struct, frozen=True):
    """The fields that a client may change about itself."""

    redirect_uri: str | msgspec.UnsetType = msgspec.UNSET
    redirect_uris: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    description: str | msgspec.UnsetType = msgspec.UNSET


class AccountChanges(Struct, frozen=True):
    """What an app may change about its user's account: these fields, and each text claim.

    "" and {} are cleared.
    """

    name: str | msgspec.UnsetType = msgspec.UNSET
    address: dict[AddressPart, str] | msgspec.UnsetType = msgspec.UNSET

    def claims(self, before: StandardClaims, *, whole: bool) -> StandardClaims:
        """Return the changed claims; `whole` removes claims that are not named."""
        after = StandardClaims.NOTHING if whole else before
        claims = {name: getattr(self, name) for name in TEXT_CLAIMS}
        after = replace(
            after, **{n: text for n, text in claims.items() if text is not msgspec.UNSET}
        )
        if not isinstance(self.address, msgspec.UnsetType):
            after = replace(after, address=Address(**self.address))
        # A changed number is not verified.
        kept = before.phone_number_verified and after.phone_number == before.phone_number
        return replace(after, phone_number_verified=kept)


_AccountClaims = cast(
    "type[AccountChanges]",
    msgspec.defstruct(
        "AccountClaims",
        [(name, str | msgspec.UnsetType, msgspec.UNSET) for name in TEXT_CLAIMS],
        bases=(AccountChanges,),
        frozen=True,
    ),
)


class Records(Struct, frozen=True):
    """Reads and changes `account`, `client` and `authorizations` inside a transaction."""

    registrar: Registrar
    accounts: Accounts

    def answer(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Run the operation and return its result, if the token's scope allows it."""
        act = _ACTS.get((record_request.object, record_request.verb))
        if act is None:
            return Refusal(
                ErrorCode.INVALID_REQUEST,
                "this object does not know that verb",
                "record.verb",
                ", ".join(f"{name} {verb}" for name, verb in _ACTS),
            )
        kind = "read" if record_request.verb in {"read", "list"} else "write"
        own = record_request.object == "client"
        needed = f"{record_request.object}:{kind}"
        covered = needed in read.scope or (not own and kind in read.scope)
        if not covered or own != (read.uid is None):
            return _insufficient(needed, read.scope)
        return act(self, tx, read, record_request, now)

    def read_account(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Return the user's record."""
        user = _user(tx, read)
        return _gone() if user is None else {"record": account_record(user)}

    def change_account(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Change the fields of the user's record that apps may change, and return it."""
        changes = _convert(record_request.changes, _AccountClaims, _ACCOUNT_READ_ONLY)
        if isinstance(changes, Rejected):
            return changes
        user = None if read.uid is None else tx.users.find_to_change(Uid(read.uid))
        if user is None:
            return _gone()
        if record_request.expected not in (None, account_record(user)):
            return _changed_meanwhile()
        missing = record_request.verb == "replace" and changes.name is msgspec.UNSET
        if missing:
            return Rejected((MetadataError("name", "is missing: PUT gives every field"),))
        name = user.name if isinstance(changes.name, msgspec.UnsetType) else changes.name
        record = UserRecord(
            user.username,
            user.email,
            name,
            user.email_verified_at is not None,
            changes.claims(user.claims, whole=record_request.verb == "replace"),
        )
        changed = self.accounts.change(tx, user, record, now)
        if isinstance(changed, tuple):
            return Rejected(changed)
        return {"record": account_record(changed)}

    def read_client(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Return the client's own record."""
        client = tx.clients.find(read.client_id)
        return _gone() if client is None else {"record": client_record(client)}

    def change_client(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Change the client's own record, and return it."""
        changes = _convert(record_request.changes, ClientChanges, _CLIENT_READ_ONLY)
        if isinstance(changes, Rejected):
            return changes
        client = tx.clients.find_to_change(read.client_id)
        if client is None:
            return _gone()
        if tx.registrations.is_adopted(client.id):
            return _adopted()
        if record_request.expected not in (None, client_record(client)):
            return _changed_meanwhile()
        uris = _redirect_uris(client, changes)
        if isinstance(uris, Rejected):
            return uris
        if record_request.verb == "replace" and (missing := _missing(changes)):
            return Rejected(missing)
        description = changes.description
        if isinstance(description, msgspec.UnsetType):
            description = client.description
        metadata = replace(metadata_of(client), redirect_uris=uris, description=description)
        changed = self.registrar.change(tx, client, metadata, now)
        if isinstance(changed, tuple):
            return Rejected(_as_said(changed, changes))
        return {"record": client_record(changed)}

    def list_authorizations(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """List the user's grants."""
        grants = () if read.uid is None else tx.grants.live_of_user(Uid(read.uid), now, MOST_LISTED)
        names = {
            client_id: _client_name(tx, client_id)
            for client_id in {grant.client_id for grant in grants}
        }
        apis = tx.apis.of_scopes(scope for grant in grants for scope in grant.scope)
        records = [authorization_record(grant, names[grant.client_id], apis) for grant in grants]
        return {"records": records}

    def read_authorization(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """Return one grant."""
        grant_state = tx.grants.find(record_request.id)
        if (
            grant_state is None
            or grant_state.grant.uid != read.uid
            or grant_state.liveness.ended(now)
        ):
            return _gone()
        name = _client_name(tx, grant_state.grant.client_id)
        apis = tx.apis.of_scopes(grant_state.grant.scope)
        return {"record": authorization_record(grant_state.grant, name, apis)}

    def delete_authorization(
        self, tx: Transaction, read: Read, record_request: RecordRequest, now: Instant
    ) -> Said | Refusal | Rejected:
        """End one grant, and require consent next time."""
        if read.uid is None or not withdraw(tx, Uid(read.uid), record_request.id, now):
            return _gone()
        return {"record": None}


def account_record(user: User) -> Record:
    """Return the user's record as the API shows it."""
    return {
        "uid": user.uid,
        "username": user.username,
        "name": user.name,
        "email": user.email,
        "email_verified": user.email_verified_at is not None,
        **{name: getattr(user.claims, name) for name in TEXT_CLAIMS},
        "phone_number_verified": user.claims.phone_number_verified,
        "address": {name: part for name, part in asdict(user.claims.address).items() if part},
        "created_at": user.created_at,
    }


def client_record(client: Client) -> Record:
    """Return the client's record as the API shows it, without secrets or their fingerprints."""
    return {
        "client_id": client.id,
        "name": client.name,
        "description": client.description,
        "redirect_uri": client.redirect_uris[0] if client.redirect_uris else "",
        "redirect_uris": list(client.redirect_uris),
        "grant_types": sorted(client.grant_types),
        "scope": str(client.scope),
        "created_at": client.created_at,
    }


def authorization_record(grant: Grant, client_name: str, apis: Sequence[Api]) -> Record:
    """Return the API's representation of a grant; `apis` contains those of its scopes."""
    owners = {unqualified(name)[0] for name in grant.scope}
    return {
        "id": grant.id,
        "client_id": grant.client_id,
        "client_name": client_name,
        **scope_record(grant.scope, [api for api in apis if api.id in owners]),
        "created_at": grant.created_at,
        "last_used_at": grant.last_used_at,
        "expires_at": grant.expires_at,
    }


def _redirect_uris(client: Client, changes: ClientChanges) -> tuple[str, ...] | Rejected:
    first, uris = changes.redirect_uri, changes.redirect_uris
    if isinstance(uris, msgspec.UnsetType):
        if isinstance(first, msgspec.UnsetType):
            return client.redirect_uris
        # The record's redirect_uri is the first of redirect_uris: the others stay.
        others = tuple(uri for uri in client.redirect_uris[1:] if uri != first)
        # The record of a client without redirect URIs shows "", so "" is accepted for it.
        return (first, *others) if first or client.redirect_uris else ()
    if not isinstance(first, msgspec.UnsetType) and (uris[:1] or ("",)) != (first,):
        return Rejected((MetadataError("redirect_uri", "the first of redirect_uris"),))
    return uris


def _as_said(
    faults: tuple[MetadataError, ...], changes: ClientChanges
) -> tuple[MetadataError, ...]:
    """Return the errors under the names that were sent: `redirect_uris/0` as `redirect_uri`."""
    if not isinstance(changes.redirect_uris, msgspec.UnsetType):
        return faults
    first = {"redirect_uris", "redirect_uris/0"}
    return tuple(
        replace(fault, field="redirect_uri") if fault.field in first else fault for fault in faults
    )


def _missing(changes: ClientChanges) -> tuple[MetadataError, ...]:
    reason = "is missing: PUT gives every field"
    faults: list[MetadataError] = []
    if changes.redirect_uri is msgspec.UNSET and changes.redirect_uris is msgspec.UNSET:
        faults.append(MetadataError("redirect_uri", reason))
    if changes.description is msgspec.UNSET:
        faults.append(MetadataError("description", reason))
    return tuple(faults)


def _convert(
    changes: Mapping[str, object], expected_type: type[T], read_only: frozenset[str]
) -> T | Rejected:
    fields = set(expected_type.__struct_fields__)
    faults = [
        MetadataError(name, "cannot be changed here" if name in read_only else "is unknown")
        for name in changes
        if name not in fields
    ]
    for name in fields & changes.keys():
        try:
            msgspec.convert({name: changes[name]}, type=expected_type)
        except msgspec.ValidationError as error:
            faults.append(MetadataError(name, str(error).partition(" - at")[0]))
    return Rejected(tuple(faults)) if faults else msgspec.convert(dict(changes), type=expected_type)


def _client_name(tx: Transaction, client_id: str) -> str:
    client = tx.clients.find(client_id)
    return "" if client is None else client.name


def _user(tx: Transaction, read: Read) -> User | None:
    return None if read.uid is None else tx.users.find(Uid(read.uid))


def _insufficient(needed: str, scope: Scope) -> Refusal:
    return Refusal(
        ErrorCode.INSUFFICIENT_SCOPE,
        f"this needs an access token with the scope {needed}",
        "record.scope",
        needed,
        str(scope),
    )


def _changed_meanwhile() -> Refusal:
    return Refusal(ErrorCode.CONFLICT, "the record has changed; read it again", "record.overtaken")


def _adopted() -> Refusal:
    return Refusal(
        ErrorCode.FORBIDDEN,
        "the operator of this server has adopted this app and alone changes it; ask them",
        "record.adopted",
    )


def _gone() -> Refusal:
    return Refusal(ErrorCode.NOT_FOUND, "this record does not exist", "record.missing")


_ACCOUNT_READ_ONLY = frozenset(
    {"uid", "username", "email", "email_verified", "phone_number_verified", "created_at"}
)
_CLIENT_READ_ONLY = frozenset({"client_id", "name", "grant_types", "scope", "created_at"})

_Act = Callable[[Records, Transaction, Read, RecordRequest, Instant], Said | Refusal | Rejected]

_ACTS: Mapping[tuple[str, str], _Act] = {
    ("account", "read"): Records.read_account,
    ("account", "change"): Records.change_account,
    ("account", "replace"): Records.change_account,
    ("client", "read"): Records.read_client,
    ("client", "change"): Records.change_client,
    ("client", "replace"): Records.change_client,
    ("authorizations", "list"): Records.list_authorizations,
    ("authorizations", "read"): Records.read_authorization,
    ("authorizations", "delete"): Records.delete_authorization,
}


_OVERLAP = days(1)
"""How long the previous credential still works, for servers that were not restarted yet."""


def keep_registered(
    tx: Transaction, registrar: Registrar, credential: Secret, now: Instant
) -> None:
    """Let the resource server authenticate with this credential; does nothing if it can already.

    Raises OperatorError for a credential that could be guessed.
    """
    client = tx.clients.find(RESOURCE_SERVER)
    if client is None:
        client = _resource_server(now)
        if tx.clients.register(client):
            tx.events.add(ClientRegistered(client.id, "start"), now)
    fingerprint = registrar.fingerprints.fingerprint(
        secret_purpose(RESOURCE_SERVER), credential.reveal()
    )
    # A credential that already has an end would end too, so a new one is stored.
    is_stored = any(
        same(secret.fingerprint, fingerprint) and secret.expires_at is None
        for secret in client.secrets
    )
    if is_stored:
        return
    faults = registrar.issue_secret(
        tx, client, credential, now, others_live=_OVERLAP, replaces_oldest=True
    )
    if faults:
        raise OperatorError(f"{faults[0].detail}", "resource.credential_text")


def credential_in_file(settings: Settings) -> Secret | None:
    """Return the credential from its file; None without a file, or with another source."""
    path = credential_path(settings)
    if settings.resource.credential_text is not None or not path.exists():
        return None
    return Secret(create_or_read_secret_file(path, str).strip())


def _resource_server(now: Instant) -> Client:
    return replace(
        client_without_rights(RESOURCE_SERVER, now),
        name="Resource server",
        description=translatable("Holds what users let clients read and change"),
    )
