"""Declare, change, disable and delete APIs, and issue their credentials."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import cast

from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import end_all_of_api
from valetkey.authorization.actions.clients import Faults, Registrar
from valetkey.authorization.model.api import API_FIELDS, MOST_SCOPES, Api, ApiFieldRule, ApiMetadata
from valetkey.authorization.model.client import Client, client_without_rights
from valetkey.authorization.model.event.grants import (
    ApiChanged,
    ApiDisabled,
    ApiEnabled,
    ApiRegistered,
    ApiRemoved,
)
from valetkey.authorization.protocol.register.faults import MetadataError, fault, input_fault
from valetkey.authorization.protocol.resource import identifier_fault
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.jose.algorithm import Algorithm
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.url import canonical

_SCOPE = re.compile(API_FIELDS["scopes"].rule.pattern)
_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f]*")


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
        self, tx: Transaction, metadata: ApiMetadata, now: Instant, *, api_id: str
    ) -> Api | Faults:
        """Return the new API, or every error. It has no secret yet."""
        tx.apis.hold_all()
        metadata = replace(metadata, name=metadata.name.strip())
        if faults := self._faults(tx, metadata, ""):
            return faults
        api = Api(id=api_id, created_at=now, changed_at=now, **metadata.values())
        key = canonical(api.identifier)
        if alike := self._alike(tx, api.identifier):
            return (fault("identifier", "api.alike", name=alike),)
        taken = key in map(canonical, self.own_identifiers)
        if taken or not tx.clients.register(_credential(api)) or not tx.apis.add(api, key):
            return (input_fault("identifier", "name.taken"),)
        tx.events.add(ApiRegistered(api.id, api.identifier), now)
        return api

    def _alike(self, tx: Transaction, identifier: str) -> str:
        """Return the identifier of an API that differs only in a slash at the end; "" for none."""
        other = identifier.removesuffix("/") if identifier.endswith("/") else f"{identifier}/"
        if canonical(other) == canonical(identifier):
            return ""
        api = tx.apis.find_by_key(canonical(other))
        if api is not None:
            return api.identifier
        return other if other in self.own_identifiers else ""

    def change(
        self, tx: Transaction, api: Api, metadata: ApiMetadata, now: Instant
    ) -> Api | Faults:
        """Return the changed API, or every error.

        `api` was found to be changed. Its identifier stays: tokens and APIs are configured by it.
        """
        metadata = replace(metadata, name=metadata.name.strip())
        if faults := self._faults(tx, metadata, api.id):
            return faults
        if metadata.identifier != api.identifier:
            return (MetadataError("identifier", "as it is; declare another API instead"),)
        after = replace(api, **metadata.values())
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

    def _faults(self, tx: Transaction, metadata: ApiMetadata, api_id: str) -> Faults:
        return (*_faults(metadata, self.algorithms), *self._scope_faults(tx, metadata, api_id))

    def _scope_faults(
        self, tx: Transaction, metadata: ApiMetadata, api_id: str
    ) -> Iterator[MetadataError]:
        names = dict.fromkeys((*metadata.scopes, *metadata.machine_scopes))
        if len(names) > MOST_SCOPES:
            yield fault("scopes", "scopes.many", most=MOST_SCOPES)
            return
        for name in names:
            field = f"scopes/{name}" if name in metadata.scopes else "machine_scopes"
            if _SCOPE.fullmatch(name) is None:
                yield fault(field, "scopes.name")
            elif name in self.own_scopes:
                yield fault(field, "scopes.reserved", name=name)
            else:
                yield from _shared(tx, metadata, api_id, field, name)


def _shared(
    tx: Transaction, metadata: ApiMetadata, api_id: str, field: str, name: str
) -> Iterator[MetadataError]:
    for other in tx.apis.declaring(name, api_id):
        if not (other.shares_scopes and metadata.shares_scopes):
            yield fault(field, "scopes.taken", api=other.identifier, name=name)


def _faults(metadata: ApiMetadata, algorithms: Sequence[Algorithm]) -> Iterator[MetadataError]:
    if detail := identifier_fault(metadata.identifier):
        yield fault("identifier", "api.url", detail)
    longest = API_FIELDS["scopes"].rule.longest
    for name, sentence in metadata.scopes.items():
        if not 0 < len(sentence) <= longest or not _LINE.fullmatch(sentence):
            yield fault(f"scopes/{name}", "scopes.text", most=longest)
    for name, field in API_FIELDS.items():
        if name != "identifier":
            yield from _value_faults(name, field.rule, getattr(metadata, name))
    if metadata.signing_algorithm not in algorithms:
        yield fault("signing_algorithm", "choice.known", known=", ".join(algorithms))


def _value_faults(name: str, rule: ApiFieldRule, value: object) -> Iterator[MetadataError]:
    match value:
        case Enum() | bool() | None:
            pass
        case str() if not rule.shortest <= len(value) <= rule.longest or not _LINE.fullmatch(value):
            code = "text.some" if rule.shortest else "text.printable"
            least = {"least": rule.shortest} if rule.shortest else {}
            yield input_fault(name, code, **least, most=rule.longest)
        case int() if not 0 < value <= rule.longest:
            detail = f"1 to {rule.longest} seconds"
            yield fault(name, "number.range", detail, least=1, most=rule.longest)
        case frozenset() if len(value) > rule.most:  # pyright: ignore[reportUnknownArgumentType]
            yield fault(name, "list.many", f"at most {rule.most}, or any", most=rule.most)
        case tuple() if rule.code:
            names = cast("tuple[str, ...]", value)
            if len(names) > rule.most:
                yield input_fault(name, "number.most", most=rule.most)
            for index, listed_name in enumerate(names[: rule.most]):
                if re.fullmatch(rule.pattern, listed_name) is None:
                    yield fault(f"{name}/{index}", rule.code)
        case _:
            pass


def changed_fields(before: Api, after: Api) -> tuple[str, ...]:
    """Return the names of the declared fields that differ between two records of an API."""
    changed = [name for name in API_FIELDS if getattr(before, name) != getattr(after, name)]
    # Dictionaries are equal in any order, and consent pages show the declared one.
    if "scopes" not in changed and tuple(before.scopes) != tuple(after.scopes):
        changed.append("scopes")
    return tuple(changed)


def _credential(api: Api) -> Client:
    return replace(
        client_without_rights(api.id, api.created_at),
        name=api.name,
        description=f"Introspects tokens for {api.identifier}",
    )
