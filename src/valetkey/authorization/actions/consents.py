"""Stored consents of users, so that the consent page is not shown for them again."""

from collections.abc import Collection

from valetkey.authorization.model.event.grants import ConsentGiven
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.register.api import unqualified
from valetkey.authorization.protocol.resource import plain
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope


def remember_consent(
    tx: Transaction,
    before: Consent | None,
    given: Consent,
    asked: Scope,
    asked_claims: Collection[str] = (),
) -> str:
    """Store what the user allowed, out of what was requested. Return the id of the consent.

    Requested permissions that were not selected are no longer allowed; of an API that was itself
    not selected, nothing is. What was allowed to an app with another name or logo must be confirmed
    again.
    """
    scope, claims = given.scope, given.claims
    if before is not None and before.appearance == given.appearance:
        refused = [unqualified(name) for name in asked - scope]
        closed = {api for api, name in refused if not name}
        kept = [name for name in before.scope - asked if unqualified(name)[0] not in closed]
        scope = Scope(tuple(kept)) | scope
        claims = before.claims.difference(asked_claims).union(claims)
    consent_id = tx.consents.put(replace(given, scope=scope, claims=claims))
    allowed = tuple(sorted(given.claims))
    apis = tuple(api.identifier for api in tx.apis.of_scopes(given.scope))
    names = str(plain(given.scope))
    tx.events.add(ConsentGiven(given.uid, given.client_id, names, allowed, apis), given.given_at)
    return consent_id
