"""Connected apps: what a person allowed, app by app, and the end of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from valetkey.authorization.deeds.endings import end_all_of_app, end_grants_of_user
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.model.consent import Consent
from valetkey.authorization.model.event.grants import ConsentWithdrawn
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope

_Used = Mapping[str, Mapping[str, Instant]]  # by grant, by scope


@dataclass(frozen=True, slots=True)
class Permission:
    """A scope that an app has.

    `used_at` is when it was last needed, None for never since `watched_since`; where that is None
    as well, nobody reports of this scope.
    """

    scope: str
    used_at: Instant | None
    watched_since: Instant | None


@dataclass(frozen=True, slots=True)
class ConnectedApp:
    """All that one app may do for one person, however many grants that is.

    `last_used_at` is None where it has no access now and only need not ask again. `outlasts` says
    that signing out does not end it.
    """

    client: Client
    since: Instant
    last_used_at: Instant | None
    permissions: tuple[Permission, ...]
    claims: frozenset[str]
    outlasts: bool
    grants: tuple[Grant, ...]
    """Those that live, oldest first."""

    @property
    def name(self) -> str:
        """What to call it."""
        return self.client.name or self.client.id


def connected_apps(tx: Transaction, uid: Uid, now: Instant) -> Sequence[ConnectedApp]:
    """The apps that may do something for this person, by name."""
    grants: dict[str, list[Grant]] = {}
    for grant in tx.grants.live_of_user(uid, now):
        # A grant bound to a session may have ended with it, which only its standing says.
        if not grant.session_id or _lives(tx, grant, now):
            grants.setdefault(grant.client_id, []).append(grant)
    consents = {consent.client_id: consent for consent in tx.consents.of_user(uid)}
    used = _uses(tx, uid)
    watched = tx.scope_uses.watched(now)
    found: list[ConnectedApp] = []
    for client_id in {**grants, **consents}:
        client = tx.clients.find(client_id)
        if client is not None:
            own, consent = grants.get(client_id, []), consents.get(client_id)
            found.append(_connected(client, own, consent, used, watched))
    return sorted(found, key=lambda app: (app.name.casefold(), app.client.id))


def find_connected(tx: Transaction, uid: Uid, client_id: str, now: Instant) -> ConnectedApp | None:
    """The same for one app; None where this person allows it nothing."""
    apps = connected_apps(tx, uid, now)
    return next((app for app in apps if app.client.id == client_id), None)


def end_app(tx: Transaction, uid: Uid, client_id: str, now: Instant) -> bool:
    """End everything that the person lets the app do, and ask again next time.

    Resource servers hear of it. False if there was nothing to end.
    """
    tx.users.hold_alone(uid)
    ended = tx.consents.forget(uid, client_id)
    if ended:
        tx.events.add(ConsentWithdrawn(uid, client_id), now)
    return end_all_of_app(tx, uid, client_id, now, "user_withdrew") or ended


def end_apps(tx: Transaction, uid: Uid, now: Instant) -> int:
    """The same for every app; how many there were."""
    tx.users.hold_alone(uid)
    apps = connected_apps(tx, uid, now)
    for app in apps:
        if tx.consents.forget(uid, app.client.id):
            tx.events.add(ConsentWithdrawn(uid, app.client.id), now)
    if apps:
        end_grants_of_user(tx, uid, now, "user_withdrew")
    return len(apps)


def _lives(tx: Transaction, grant: Grant, now: Instant) -> bool:
    found = tx.grants.find(grant.id)
    return found is not None and not found.standing.ended(now)


def _uses(tx: Transaction, uid: Uid) -> _Used:
    found: dict[str, dict[str, Instant]] = {}
    for use in tx.scope_uses.of_user(uid):
        found.setdefault(use.grant_id, {})[use.scope] = use.last_used_at
    return found


def _connected(
    client: Client,
    grants: Sequence[Grant],
    consent: Consent | None,
    used: _Used,
    watched: Mapping[str, Instant],
) -> ConnectedApp:
    scope = Scope() if consent is None else consent.scope
    since = [] if consent is None else [consent.given_at]
    last: list[Instant] = []
    uses: dict[str, Instant] = {}
    for grant in grants:
        scope |= grant.scope
        since.append(grant.created_at)
        last.append(grant.last_used_at)
        for name, at in used.get(grant.id, {}).items():
            uses[name] = max(at, uses.get(name, at))
    return ConnectedApp(
        client=client,
        since=min(since),
        last_used_at=max([*last, *uses.values()], default=None),
        permissions=tuple(
            Permission(name, uses.get(name), watched.get(name)) for name in scope.names
        ),
        claims=frozenset() if consent is None else consent.claims,
        outlasts=any(not grant.session_id for grant in grants),
        grants=tuple(grants),
    )
