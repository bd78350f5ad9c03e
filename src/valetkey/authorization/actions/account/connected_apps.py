"""Connected apps of a user: list their consents and grants, and revoke them."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from valetkey.authorization.actions.bulk_revocation import end_all_apps_of_user, end_all_of_app
from valetkey.authorization.model.api import unqualified
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.event.grants import ConsentGiven, ConsentWithdrawn
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.resource import plain
from valetkey.authorization.storage.grants import Access
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace
from valetkey.kernel.scope import Scope

MOST_APPS = 1_000
"""Maximum number of apps read by last use, and the same number by last consent."""

_MOST_SCOPES = 100
"""Maximum number of scopes read from the grants of one app, besides those of its consent."""


class GrantedScope(Struct, frozen=True):
    """A scope granted to an app.

    `used_at` is its last use, None if it was not used since `watched_since`. If both are None, no
    resource server reports the use of this scope.
    """

    scope: str
    used_at: Instant | None
    watched_since: Instant | None


class ConnectedApp(Struct, frozen=True):
    """One app with access to a user's account, over all its grants.

    `last_used_at` is None if the app has no access now but a remembered consent. `outlasts` is True
    if the access continues after the user signs out.
    """

    client: Client
    since: Instant
    last_used_at: Instant | None
    permissions: tuple[GrantedScope, ...]
    claims: frozenset[str]
    outlasts: bool

    @property
    def name(self) -> str:
        """Return the app's name, or its client id if it has none."""
        return self.client.name or self.client.id


def connected_apps(tx: Transaction, uid: Uid, now: Instant) -> Sequence[ConnectedApp]:
    """Return the apps with access to the user's account, by name; at most about `MOST_APPS`."""
    access = tx.connected.of_user(uid, now, MOST_APPS)
    consents = {consent.client_id: consent for consent in tx.consents.of_user(uid, MOST_APPS)}
    watched = tx.scope_uses.watched(now)
    apps: list[ConnectedApp] = []
    for client_id in {**access, **consents}:
        client = tx.clients.find(client_id)
        if client is not None:
            own, consent = access.get(client_id), consents.get(client_id)
            apps.append(_connected(tx, uid, client, own, consent, watched, now))
    return sorted(apps, key=lambda app: (app.name.casefold(), app.client.id))


def find_connected(tx: Transaction, uid: Uid, client_id: str, now: Instant) -> ConnectedApp | None:
    """Return one connected app; None if the user has granted it nothing."""
    access, consent = tx.connected.of_app(uid, client_id, now), tx.consents.find(uid, client_id)
    client = tx.clients.find(client_id)
    if client is None or (access is None and consent is None):
        return None
    return _connected(tx, uid, client, access, consent, tx.scope_uses.watched(now), now)


def end_app(tx: Transaction, uid: Uid, client_id: str, now: Instant) -> bool:
    """Revoke all access of an app to the user's account, and forget the consent.

    Resource servers are notified. Returns False if there was nothing to revoke.
    """
    tx.users.hold_alone(uid)
    ended = tx.consents.delete(uid, client_id)
    if ended:
        tx.events.add(ConsentWithdrawn(uid, client_id), now)
    return end_all_of_app(tx, uid, client_id, now, "user_withdrew") or ended


def end_apps(tx: Transaction, uid: Uid, now: Instant) -> bool:
    """Revoke the access of every app, as `end_app` does."""
    tx.users.hold_alone(uid)
    if not tx.consents.clients_of(uid, 1) and not tx.grants.live_of_user(uid, now, 1):
        return False
    end_all_apps_of_user(tx, uid, now, "user_withdrew")
    return True


def scope_of_grants(tx: Transaction, uid: Uid, client_id: str, now: Instant) -> Scope:
    """Return what the live grants between the user and the client allow."""
    scope = Scope()
    for names in tx.connected.scopes_of(uid, client_id, now, _MOST_SCOPES):
        scope |= Scope(tuple(names.split()))
    return scope


def _connected(
    tx: Transaction,
    uid: Uid,
    client: Client,
    access: Access | None,
    consent: Consent | None,
    watched: Mapping[str, Instant],
    now: Instant,
) -> ConnectedApp:
    scope = Scope() if consent is None else consent.scope
    since = [] if consent is None else [consent.given_at]
    last: list[Instant] = []
    uses: Mapping[str, Instant] = {}
    if access is not None:
        scope |= scope_of_grants(tx, uid, client.id, now)
        uses = tx.connected.uses_of(uid, client.id, now)
        since.append(access.since)
        last = [access.last_used_at, *uses.values()]
    return ConnectedApp(
        client=client,
        since=min(since),
        last_used_at=max(last, default=None),
        permissions=tuple(
            GrantedScope(name, uses.get(name), watched.get(name)) for name in scope.names
        ),
        claims=frozenset() if consent is None else consent.claims,
        outlasts=access is not None and access.outlasts,
    )


def remember_consent(
    tx: Transaction,
    before: Consent | None,
    consent: Consent,
    requested: Scope,
    asked_claims: Collection[str] = (),
) -> str:
    """Store what the user allowed, out of what was requested. Return the id of the consent.

    Requested permissions that were not selected are no longer allowed; of an API that was itself
    not selected, nothing is. What was allowed to an app with another name or logo must be confirmed
    again.
    """
    scope, claims = consent.scope, consent.claims
    if before is not None and before.appearance == consent.appearance:
        refused = [unqualified(name) for name in requested - scope]
        closed = {api for api, name in refused if not name}
        kept = [name for name in before.scope - requested if unqualified(name)[0] not in closed]
        scope = Scope(tuple(kept)) | scope
        claims = before.claims.difference(asked_claims).union(claims)
    consent_id = tx.consents.save(replace(consent, scope=scope, claims=claims))
    allowed = tuple(sorted(consent.claims))
    apis = tuple(api.identifier for api in tx.apis.of_scopes(consent.scope))
    names = str(plain(consent.scope))
    tx.events.add(
        ConsentGiven(consent.uid, consent.client_id, names, allowed, apis), consent.given_at
    )
    return consent_id
