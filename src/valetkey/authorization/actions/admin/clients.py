"""Search and read the registered clients, for administrators."""

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import Actor, Permission, require
from valetkey.authorization.model.client import RESOURCE_SERVER, Client, Membership
from valetkey.authorization.protocol.register.faults import MetadataError
from valetkey.authorization.storage.clients import QueryCredentialUse
from valetkey.authorization.storage.search import (
    ClientFilter,
    ClientSearchResult,
    ListOrder,
    TimeCursor,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refused

Faults = tuple[MetadataError, ...]


class ClientWithUses(Struct, frozen=True):
    """A client with its team and the number of its users and grants."""

    client: Client
    team: tuple[Membership, ...]
    authorizations: int
    people: int
    sighting: QueryCredentialUse | None


def search(
    tx: Transaction,
    actor: Actor,
    wanted: ClientFilter,
    place: TimeCursor,
    limit: int,
    order: ListOrder = ListOrder.NEWEST,
) -> ClientSearchResult:
    """Return a page of the clients that match. Raises Refused (forbidden)."""
    require(tx, actor, Permission.READ)
    return tx.client_search.page(wanted, place, limit, order)


def find_details(tx: Transaction, actor: Actor, client_id: str, now: Instant) -> ClientWithUses:
    """Return a client and its use. Raises Refused (forbidden, not found)."""
    require(tx, actor, Permission.READ)
    client = _find(tx, client_id, to_change=False)
    reach = tx.grants.usage_of(client.id, now)
    return ClientWithUses(
        client,
        tuple(tx.members.team(client.id)),
        reach.authorizations,
        reach.people,
        tx.clients.query_credential_use(client.id),
    )


def no_such_client() -> Refused:
    """Return the refusal of a client that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this app does not exist", "admin.client")


def client_to_change(tx: Transaction, client_id: str) -> Client:
    """Return the client, held until the commit.

    Raises Refused: not found; forbidden for this server's own client.
    """
    return _find(tx, client_id, to_change=True)


def _find(tx: Transaction, client_id: str, *, to_change: bool) -> Client:
    # No client has such an id, and PostgreSQL raises an error for NUL.
    if not client_id.isascii() or not client_id.isprintable():
        raise no_such_client()
    client = (tx.clients.find_to_change if to_change else tx.clients.find)(client_id)
    if client is None or tx.client_search.is_gone(client_id):
        raise no_such_client()
    if to_change and tx.apis.find(client_id) is not None:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "this is the credential of an API: change the API instead",
            "admin.api_credential",
        )
    if to_change and client_id == RESOURCE_SERVER:
        raise Refused.because(
            ErrorCode.FORBIDDEN,
            "the resource server is one of this server's own parts",
            "admin.own_client",
        )
    return client
