"""Users of an app, as far as the app itself may know them."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import scope_of_grants
from valetkey.authorization.model.client import Client
from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.user import Uid
from valetkey.authorization.protocol.claims import claims_of_scope, user_claims
from valetkey.authorization.storage.grants import ClientUsers
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.id_token import Subjects
from valetkey.kernel.moment import Instant
from valetkey.kernel.scope import Scope


class ConnectedUser(Struct, frozen=True):
    """A user of the app. `subject` is the `sub` by which the app knows them.

    `name` and `email` are "" unless the user allowed the app to read them: developers see nothing
    here that their app could not request.
    """

    uid: int
    subject: str
    scope: Scope
    since: Instant
    last_used_at: Instant | None
    name: str = ""
    email: str = ""


class ConnectedUsers(Struct, frozen=True):
    """A page of users, and their total number."""

    total: int
    people: Sequence[ConnectedUser]


def users_of_app(
    tx: Transaction,
    client: Client,
    subjects: Subjects,
    before: tuple[Instant, int],
    limit: int,
    now: Instant,
) -> ConnectedUsers:
    """Return at most `limit` users, latest first, after the given position of time and uid."""
    connections = ClientUsers(tx.db)
    found: list[tuple[Instant, Uid, Consent | None]] = [
        (each.given_at, each.uid, each) for each in connections.page(client.id, *before, limit)
    ]
    others = connections.without_consent(client.id, *before, now, limit)
    found += [(since, uid, None) for uid, since in others]
    found.sort(key=lambda each: each[:2], reverse=True)
    people = [_person(tx, client, subjects, each, now) for each in found[:limit]]
    return ConnectedUsers(
        tx.grants.usage_of(client.id, now).people, [each for each in people if each is not None]
    )


def _person(
    tx: Transaction,
    client: Client,
    subjects: Subjects,
    found: tuple[Instant, Uid, Consent | None],
    now: Instant,
) -> ConnectedUser | None:
    since, uid, consent = found
    user = tx.users.find(uid)
    if user is None:
        return None
    access = tx.connected.of_app(uid, client.id, now)
    if consent is None:
        scope, claims = scope_of_grants(tx, uid, client.id, now), frozenset[str]()
    else:
        scope, claims = consent.scope, consent.claims
    said = user_claims(user, frozenset((*claims_of_scope(scope), *claims)))
    return ConnectedUser(
        uid=user.uid,
        subject=subjects.of(user, client),
        scope=scope,
        since=since,
        last_used_at=None if access is None else access.last_used_at,
        name=str(said.get("name", "")),
        email=str(said.get("email", "")),
    )
