"""The register of clients in administrators' hands: each deed asks what its actor may do."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from valetkey.authorization.deeds.admin.permissions import Actor, Permission, require
from valetkey.authorization.deeds.clients import Registrar, metadata_of
from valetkey.authorization.deeds.registrations import adopt
from valetkey.authorization.model.event.clients import ClientVerificationEnded, ClientVerified
from valetkey.authorization.model.register.client import (
    BY_SECRET,
    RESOURCE_SERVER,
    Client,
    GrantTypeName,
)
from valetkey.authorization.model.register.membership import Membership
from valetkey.authorization.protocol.register.client_metadata import ClientMetadata, Fault
from valetkey.authorization.storage.administration.client_search import (
    ClientFilter,
    Found,
    Place,
)
from valetkey.authorization.storage.register.clients import QuerySighting
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, Lifetime
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.secret import Prefix, Secret, fresh_id, fresh_secret

LEGACY = (GrantTypeName.IMPLICIT, GrantTypeName.PASSWORD)
"""The grants of old, which are switched on one by one, knowing what they cost."""

Faults = tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class FreshClient:
    """What chance gives a new client, drawn before the transaction."""

    id: str
    secret: Secret

    @staticmethod
    def draw(random: Callable[[int], bytes]) -> "FreshClient":
        """Draw it."""
        return FreshClient(fresh_id("client", random), fresh_secret(Prefix.CLIENT_SECRET, random))


@dataclass(frozen=True, slots=True)
class WithSecret:
    """A client, and the secret that was made for it just now, if one was."""

    client: Client
    secret: Secret | None


@dataclass(frozen=True, slots=True)
class Held:
    """What a client has, and who loses something when it goes."""

    client: Client
    team: tuple[Membership, ...]
    authorizations: int
    people: int
    sighting: QuerySighting | None


def search(tx: Transaction, actor: Actor, wanted: ClientFilter, before: Place, limit: int) -> Found:
    """Some of the register. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.client_search.page(wanted, before, limit)


def look(tx: Transaction, actor: Actor, client_id: str, now: Instant) -> Held:
    """Everything about one. Raises Refused (forbidden, not found)."""
    require(tx, actor, Permission.READ)
    client = _find(tx, client_id, to_change=False)
    reach = tx.grants.reach(client.id, now)
    return Held(
        client,
        tuple(tx.members.team(client.id)),
        reach.authorizations,
        reach.people,
        tx.clients.query_sighting(client.id),
    )


@dataclass(frozen=True, slots=True)
class ClientDesk:
    """Changes the register. Its methods run inside a transaction and raise Refused.

    Forbidden for who may not, not found for what is not there, and for this server's own client.
    """

    registrar: Registrar

    def register(
        self,
        tx: Transaction,
        actor: Actor,
        metadata: ClientMetadata,
        fresh: FreshClient,
        now: Instant,
    ) -> WithSecret | Faults:
        """A new one, with a secret if it needs one. The grants of old are switched on later."""
        tx.clients.touch()
        require(tx, actor, Permission.CLIENTS)
        if faults := _legacy_faults(metadata, ()):
            return faults
        secret = fresh.secret if metadata.proof in BY_SECRET else None
        made = self.registrar.register(tx, metadata, now, client_id=fresh.id, secret=secret)
        return made if isinstance(made, tuple) else WithSecret(made, secret)

    def change(
        self,
        tx: Transaction,
        actor: Actor,
        client_id: str,
        change: Callable[[Client], ClientMetadata],
        fresh: FreshClient,
        now: Instant,
    ) -> WithSecret | Faults:
        """What `change` makes of it; it gets a secret if it needs one from now on."""
        client = self._take(tx, actor, client_id)
        metadata = change(client)
        if faults := _legacy_faults(metadata, client.grant_types):
            return faults
        changed = self.registrar.change(tx, client, metadata, now)
        if isinstance(changed, tuple):
            return changed
        useful = [s for s in changed.secrets if s.sealed or not changed.signs_with_secret]
        if not changed.has_secret or any(secret.is_live(now) for secret in useful):
            return WithSecret(changed, None)
        faults = self.registrar.issue_secret(
            tx, changed, fresh.secret, now, others_live=Lifetime(0)
        )
        return faults or WithSecret(changed, fresh.secret)

    def switch(
        self, tx: Transaction, actor: Actor, client_id: str, *, on: bool, now: Instant
    ) -> bool:
        """On or off; False if it was so. What ended with off stays ended."""
        client = self._take(tx, actor, client_id)
        act = self.registrar.enable if on else self.registrar.disable
        return act(tx, client, now)

    def verify(
        self, tx: Transaction, actor: Actor, client_id: str, *, on: bool, now: Instant
    ) -> bool:
        """Say that somebody here knows who is behind it, or say so no more; False if it was so."""
        client = self._take(tx, actor, client_id)
        done = tx.clients.verify(client.id, now) if on else tx.clients.unverify(client.id)
        if done:
            ended = ClientVerificationEnded(client.id, "administrator")
            tx.events.add(ClientVerified(client.id) if on else ended, now)
        return done

    def allow(
        self,
        tx: Transaction,
        actor: Actor,
        client_id: str,
        grant_type: GrantTypeName,
        *,
        on: bool,
        now: Instant,
    ) -> Client | Faults:
        """Switch a grant of old on or off."""
        client = self._take(tx, actor, client_id)
        names = client.grant_types | {grant_type} if on else client.grant_types - {grant_type}
        if not names:
            return (Fault("grant_type", "not its only one: switch the client off instead"),)
        wanted = replace(metadata_of(client), grant_types=tuple(sorted(names)))
        return self.registrar.change(tx, client, wanted, now)

    def issue_secret(
        self,
        tx: Transaction,
        actor: Actor,
        client_id: str,
        secret: Secret,
        now: Instant,
        *,
        others_live: Lifetime | None,
    ) -> Faults:
        """One more secret; the others end after `others_live`, or never if that is None."""
        client = self._take(tx, actor, client_id)
        return self.registrar.issue_secret(tx, client, secret, now, others_live=others_live)

    def end_secret(
        self, tx: Transaction, actor: Actor, client_id: str, secret_id: str, now: Instant
    ) -> bool:
        """End one of its secrets now; False if there is none that works."""
        return self.registrar.end_secret(tx, self._take(tx, actor, client_id), secret_id, now)

    def delete(self, tx: Transaction, actor: Actor, client_id: str, now: Instant) -> None:
        """Remove it and everything it holds, and dissolve its team. Its id is never given again."""
        client = self._take(tx, actor, client_id)
        self.registrar.remove(tx, client, now, because="deleted")
        tx.members.dissolve(client.id, now)

    def adopt(self, tx: Transaction, actor: Actor, client_id: str, now: Instant) -> bool:
        """Make one that registered itself the operator's own; False if it is."""
        client = self._take(tx, actor, client_id)
        return adopt(tx, client.id, now)

    def _take(self, tx: Transaction, actor: Actor, client_id: str) -> Client:
        # First: the role is judged with the actor's own account held.
        tx.clients.hold_all()
        require(tx, actor, Permission.CLIENTS)
        return _find(tx, client_id, to_change=True)


def no_such_client() -> Refused:
    """For what is not there."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, "there is no such app", "admin.client"))


def _find(tx: Transaction, client_id: str, *, to_change: bool) -> Client:
    # Nobody is called by what no database stores; asking would be a fault of ours.
    if not client_id.isascii() or not client_id.isprintable():
        raise no_such_client()
    client = (tx.clients.find_to_change if to_change else tx.clients.find)(client_id)
    if client is None or tx.client_search.is_gone(client_id):
        raise no_such_client()
    if to_change and client_id == RESOURCE_SERVER:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "the resource server is one of this server's own parts",
                "admin.own_client",
            )
        )
    return client


def _legacy_faults(metadata: ClientMetadata, had: Collection[str]) -> Faults:
    for number, name in enumerate(metadata.grant_types):
        if name in LEGACY and name not in had:
            detail = f"{name} is switched on by itself, once it is registered"
            return (Fault(f"grant_types/{number}", detail),)
    return ()
