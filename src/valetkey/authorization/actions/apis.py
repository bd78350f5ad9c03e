"""Declare, change, disable and delete APIs, and issue their credentials."""

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field

from valetkey.authorization.actions.bulk_revocation import end_all_of_api
from valetkey.authorization.actions.clients import Faults, Registrar
from valetkey.authorization.model.account.scim import NAME, Group
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.clients import (
    ApiChanged,
    ApiDisabled,
    ApiEnabled,
    ApiRegistered,
    ApiRemoved,
)
from valetkey.authorization.model.event.groups import (
    ApiRoleAssigned,
    ApiRoleWithdrawn,
    GroupApiRoleAssigned,
    GroupApiRoleWithdrawn,
)
from valetkey.authorization.model.register.api import Api
from valetkey.authorization.model.register.client import (
    AccessTokenFormat,
    Client,
    client_without_rights,
)
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.protocol.register.reasons import input_fault
from valetkey.authorization.protocol.resource import identifier_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope
from valetkey.kernel.url import canonical

MOST_SCOPES = 100
MOST_ROLES = 50
MOST_REQUIRED = 50
"""Maximum number of groups that an API requires."""

ROLE_NAME = r"[A-Za-z0-9][A-Za-z0-9._:-]{0,79}"
"""The pattern of a role's name."""

LONGEST_LIFETIME = 86_400
"""Maximum lifetime of tokens in seconds; the record of a revocation is kept for two days."""

_LONGEST_NAME = 80
_LONGEST_SENTENCE = 200
_MOST_CLIENTS = 1_000
_SCOPE = re.compile(r"[!$-\[\]-~]{1,100}")
_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")


class ApiMetadata(Struct, frozen=True):
    """The declaration of an API. `clients` is None if every client may request it."""

    identifier: str
    name: str = ""
    scopes: Mapping[str, str] = field(default_factory=dict[str, str])
    machine_scopes: tuple[str, ...] = ()
    access_token_format: str = AccessTokenFormat.JWT.value
    access_token_lifetime: int | None = None
    signing_algorithm: str = Algorithm.ES256.value
    clients: tuple[str, ...] | None = None
    shares_scopes: bool = False
    roles: tuple[str, ...] = ()
    required_groups: tuple[str, ...] = ()


class ApiRegistrar(Struct, frozen=True):
    """Registers and changes APIs. Its methods run inside a transaction.

    `own_identifiers` are the default API's and the issuer's, `own_scopes` the names of the default
    API's scopes and of those about the user.
    """

    own_identifiers: Sequence[str]
    own_scopes: frozenset[str]
    algorithms: Sequence[Algorithm]
    credentials: Registrar

    def register(
        self, tx: Transaction, wanted: ApiMetadata, now: Instant, *, api_id: str
    ) -> Api | Faults:
        """Return the new API, or every error. It has no secret yet."""
        tx.apis.hold_all()
        if faults := self._faults(tx, wanted, ""):
            return faults
        api = _api(wanted, api_id, now)
        key = canonical(api.identifier)
        taken = key in map(canonical, self.own_identifiers)
        if taken or not tx.clients.register(_credential(api)) or not tx.apis.add(api, key):
            return (input_fault("identifier", "name.taken"),)
        tx.events.add(ApiRegistered(api.id, api.identifier), now)
        return api

    def change(self, tx: Transaction, api: Api, wanted: ApiMetadata, now: Instant) -> Api | Faults:
        """Return the changed API, or every error.

        `api` was found to be changed. Its identifier stays: tokens and APIs are configured by it.
        """
        if faults := self._faults(tx, wanted, api.id):
            return faults
        if wanted.identifier != api.identifier:
            return (MetadataError("identifier", "as it is; declare another API instead"),)
        after = replace(
            _api(wanted, api.id, now),
            created_at=api.created_at,
            changed_at=api.changed_at,
            disabled_at=api.disabled_at,
            generation=api.generation,
        )
        changed = changed_fields(api, after)
        if not changed:
            return api
        after = replace(after, changed_at=now)
        tx.apis.change(after, canonical(api.identifier))
        tx.events.add(ApiChanged(api.id, api.identifier, changed), now)
        return after

    def disable(self, tx: Transaction, api: Api, now: Instant) -> bool:
        """Disable an API and end everything issued for it. False if it was disabled."""
        if api.disabled_at is not None:
            return False
        credential = tx.clients.find_to_change(api.id)
        if credential is not None:
            tx.clients.change(replace(credential, disabled_at=now, changed_at=now))
        tx.apis.disable(api.id, now)
        end_all_of_api(tx, api, now, "api_disabled")
        tx.events.add(ApiDisabled(api.id, api.identifier), now)
        return True

    def enable(self, tx: Transaction, api: Api, now: Instant) -> bool:
        """Enable an API; nothing that ended is restored. False if it was enabled."""
        if api.disabled_at is None:
            return False
        credential = tx.clients.find_to_change(api.id)
        if credential is not None:
            tx.clients.change(replace(credential, disabled_at=None, changed_at=now))
        tx.apis.enable(api.id, now)
        tx.events.add(ApiEnabled(api.id, api.identifier), now)
        return True

    def remove(self, tx: Transaction, api: Api, now: Instant) -> None:
        """Delete an API and its credential, and end everything issued for it."""
        credential = tx.clients.find_to_change(api.id)
        if credential is not None:
            self.credentials.remove(tx, credential, now, because="deleted")
            tx.members.remove_all_of(api.id, now)
        tx.apis.remove(api.id)
        end_all_of_api(tx, api, now, "api_removed")
        tx.events.add(ApiRemoved(api.id, api.identifier), now)

    def _faults(self, tx: Transaction, wanted: ApiMetadata, api_id: str) -> Faults:
        return (*_faults(wanted, self.algorithms), *self._scope_faults(tx, wanted, api_id))

    def _scope_faults(
        self, tx: Transaction, wanted: ApiMetadata, api_id: str
    ) -> Iterator[MetadataError]:
        names = dict.fromkeys((*wanted.scopes, *wanted.machine_scopes))
        if len(names) > MOST_SCOPES:
            yield MetadataError("scopes", f"at most {MOST_SCOPES} with the machine scopes")
            return
        for name in names:
            place = f"scopes/{name}" if name in wanted.scopes else "machine_scopes"
            if _SCOPE.fullmatch(name) is None:
                yield MetadataError(place, 'names of 1 to 100 ASCII characters without # " \\')
            elif name in self.own_scopes:
                yield MetadataError(place, f"another name: {name} is a scope of this server")
            else:
                yield from _shared(tx, wanted, api_id, place, name)


def _shared(
    tx: Transaction, wanted: ApiMetadata, api_id: str, place: str, name: str
) -> Iterator[MetadataError]:
    for other in tx.apis.declaring(name, api_id):
        if not (other.shares_scopes and wanted.shares_scopes):
            detail = (
                f"another name: {other.identifier} declares {name}, and not both share their scopes"
            )
            yield MetadataError(place, detail)


def _faults(wanted: ApiMetadata, algorithms: Sequence[Algorithm]) -> Iterator[MetadataError]:
    if fault := identifier_fault(wanted.identifier):
        yield MetadataError("identifier", fault)
    if not 0 < len(wanted.name) <= _LONGEST_NAME or not _LINE.fullmatch(wanted.name):
        yield input_fault("name", "text.some", least=1, most=_LONGEST_NAME)
    for name, sentence in wanted.scopes.items():
        if not 0 < len(sentence) <= _LONGEST_SENTENCE or not _LINE.fullmatch(sentence):
            detail = f"a sentence of 1 to {_LONGEST_SENTENCE} characters, as in: see your calendar"
            yield MetadataError(f"scopes/{name}", detail)
    if wanted.access_token_format not in tuple(AccessTokenFormat):
        yield MetadataError("access_token_format", f"one of: {', '.join(AccessTokenFormat)}")
    lifetime = wanted.access_token_lifetime
    if lifetime is not None and not 0 < lifetime <= LONGEST_LIFETIME:
        yield MetadataError("access_token_lifetime", f"1 to {LONGEST_LIFETIME} seconds")
    if wanted.signing_algorithm not in algorithms:
        yield MetadataError("signing_algorithm", f"one of: {', '.join(algorithms)}")
    if wanted.clients is not None and len(wanted.clients) > _MOST_CLIENTS:
        yield MetadataError("clients", f"at most {_MOST_CLIENTS}, or any")
    yield from _role_faults(wanted)
    yield from _group_faults(wanted)


def _group_faults(wanted: ApiMetadata) -> Iterator[MetadataError]:
    if len(wanted.required_groups) > MOST_REQUIRED:
        yield input_fault("required_groups", "number.most", most=MOST_REQUIRED)
    for place, name in enumerate(wanted.required_groups[:MOST_REQUIRED]):
        if re.fullmatch(NAME, name) is None:
            yield MetadataError(f"required_groups/{place}", "the name of a group")


def _role_faults(wanted: ApiMetadata) -> Iterator[MetadataError]:
    if len(wanted.roles) > MOST_ROLES:
        yield input_fault("roles", "number.most", most=MOST_ROLES)
    for place, role in enumerate(wanted.roles[:MOST_ROLES]):
        if re.fullmatch(ROLE_NAME, role) is None:
            yield MetadataError(f"roles/{place}", "1 to 80 letters, digits and . _ : -")


def metadata_of(api: Api) -> ApiMetadata:
    """Return the declaration of an API; change a field of it and pass it to `change`."""
    return ApiMetadata(
        identifier=api.identifier,
        name=api.name,
        scopes=api.scopes,
        machine_scopes=api.machine_scope.names,
        access_token_format=(api.access_token_format or AccessTokenFormat.JWT).value,
        access_token_lifetime=api.access_token_lifetime,
        signing_algorithm=api.signing_algorithm.value,
        clients=None if api.clients is None else tuple(sorted(api.clients)),
        shares_scopes=api.shares_scopes,
        roles=api.roles,
        required_groups=api.required_groups,
    )


def changed_fields(before: Api, after: Api) -> tuple[str, ...]:
    """Return the names of the declared fields that differ between two records of an API."""
    one, other = metadata_of(before), metadata_of(after)
    names = ApiMetadata.__struct_fields__
    changed = [name for name in names if getattr(one, name) != getattr(other, name)]
    # Dictionaries are equal in any order, and consent pages show the declared one.
    if "scopes" not in changed and tuple(one.scopes) != tuple(other.scopes):
        changed.append("scopes")
    return tuple(changed)


def _api(wanted: ApiMetadata, api_id: str, now: Instant) -> Api:
    lifetime = wanted.access_token_lifetime
    return Api(
        id=api_id,
        identifier=wanted.identifier,
        name=wanted.name,
        scopes=dict(wanted.scopes),
        machine_scope=Scope(tuple(dict.fromkeys(wanted.machine_scopes))),
        access_token_format=AccessTokenFormat(wanted.access_token_format),
        access_token_lifetime=None if lifetime is None else Lifetime(lifetime),
        signing_algorithm=Algorithm(wanted.signing_algorithm),
        clients=None if wanted.clients is None else frozenset(wanted.clients),
        shares_scopes=wanted.shares_scopes,
        created_at=now,
        changed_at=now,
        roles=tuple(dict.fromkeys(wanted.roles)),
        required_groups=tuple(dict.fromkeys(wanted.required_groups)),
    )


def _credential(api: Api) -> Client:
    return replace(
        client_without_rights(api.id, api.created_at),
        name=api.name,
        description=f"Introspects tokens for {api.identifier}",
    )


def assign(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a user. False if they have it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleAssigned(user.uid, api.id, role), now)
    return True


def withdraw(tx: Transaction, user: User, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a user, declared or not. False unless it was assigned to the user."""
    if not tx.api_roles.withdraw(user.uid, api.id, role):
        return False
    tx.events.add(ApiRoleWithdrawn(user.uid, api.id, role), now)
    return True


def assign_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Assign the role to a group, its members and its subgroups. False if the group has it.

    Raises Refused if the API does not declare it.
    """
    require_role(api, role)
    if not tx.api_roles.assign_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleAssigned(group.name, api.id, role), now)
    return True


def withdraw_group(tx: Transaction, group: Group, api: Api, role: str, now: Instant) -> bool:
    """Remove the role from a group. False if the group does not have it."""
    if not tx.api_roles.withdraw_group(group, api.id, role):
        return False
    tx.events.add(GroupApiRoleWithdrawn(group.name, api.id, role), now)
    return True


def require_role(api: Api, role: str) -> None:
    """Raise Refused (not found) if the API does not declare the role."""
    if role not in api.roles:
        raise Refused.because(
            ErrorCode.NOT_FOUND, "the API declares no such role", "api.role.unknown"
        )
