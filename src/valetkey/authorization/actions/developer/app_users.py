"""Users of an app, as far as the app itself may know them."""

from collections.abc import Sequence

from msgspec import Struct

from valetkey.authorization.model.grant import Consent
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.protocol.claims import claims_of_scope, user_claims
from valetkey.authorization.storage.register.connected import Connections
from valetkey.authorization.storage.transaction import Transaction
from valetkey.authorization.tokens.subject import Subjects
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
    connections = Connections(tx.db)
    found = connections.page(client.id, *before, limit)
    people = [_person(tx, connections, client, subjects, each, now) for each in found]
    return ConnectedUsers(
        connections.count(client.id), [each for each in people if each is not None]
    )


def _person(
    tx: Transaction,
    connections: Connections,
    client: Client,
    subjects: Subjects,
    consent: Consent,
    now: Instant,
) -> ConnectedUser | None:
    user = tx.users.find(consent.uid)
    if user is None:
        return None
    allowed = frozenset((*claims_of_scope(consent.scope), *consent.claims))
    said = user_claims(user, allowed)
    return ConnectedUser(
        uid=user.uid,
        subject=subjects.of(user, client),
        scope=consent.scope,
        since=consent.given_at,
        last_used_at=connections.last_used(client.id, user.uid, now),
        name=str(said.get("name", "")),
        email=str(said.get("email", "")),
    )
