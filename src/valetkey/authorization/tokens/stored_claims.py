"""Claims that are not in the user's record but in other tables."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.protocol.claims import GROUPS
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import Identity

_NOTHING: Mapping[str, object] = MappingProxyType({})


def stored_claims(tx: Transaction, uid: Uid, names: Collection[str]) -> Mapping[str, object]:
    """Return those of the named claims that need a query; a user without groups has an empty list.

    Nothing is read unless one of them is named.
    """
    return {GROUPS: list(tx.groups.names_of(uid))} if GROUPS in names else _NOTHING


def has_stored(names: Collection[str]) -> bool:
    """Return whether one of the named claims is not in the user's record."""
    return GROUPS in names


def with_stored_claims(tx: Transaction, identity: Identity) -> Identity:
    """Return the identity with the stored claims that its ID token carries."""
    found = stored_claims(tx, identity.user.uid, identity.claim_names)
    return replace(identity, stored=found) if found else identity
