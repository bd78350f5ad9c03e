"""Transaction and Store: every store under one name; and records kept in memory while current."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from typing import Generic, Protocol, TypeVar, cast

from msgspec import Struct, field

from valetkey.authorization.model.api import ExtraClaim
from valetkey.authorization.model.event.event import USUAL_ACTOR, DoneBy, Event
from valetkey.authorization.model.user import Attribute, Uid
from valetkey.authorization.storage.account_removals import AccountRemovals
from valetkey.authorization.storage.administration import (
    ApiTokens,
    Applied,
    BrandChanges,
    ResponseTimes,
    StoredSettings,
)
from valetkey.authorization.storage.apis import ApiRoles, Apis
from valetkey.authorization.storage.clients import Clients, Registrations, Secrets
from valetkey.authorization.storage.credentials import Credentials, RememberedDevices, Throttles
from valetkey.authorization.storage.grants import Connected, Consents, Grants
from valetkey.authorization.storage.groups import Groups
from valetkey.authorization.storage.images import Logos, Pictures
from valetkey.authorization.storage.members import InitialAccessTokens, Members, TeamInvitations
from valetkey.authorization.storage.nodes import Backups, Nodes
from valetkey.authorization.storage.outbox import EmailQueue, LogoutQueue, Outbox
from valetkey.authorization.storage.records import (
    NOWHERE,
    ORIGIN,
    AuditChain,
    AuditExports,
    EventOrigins,
    Events,
    Listener,
    RequestOrigin,
    count,
)
from valetkey.authorization.storage.restoration import Restoration
from valetkey.authorization.storage.revision import change_token_state
from valetkey.authorization.storage.revocations import BulkRevocations, Revocations
from valetkey.authorization.storage.search import ClientSearch, EventSearch
from valetkey.authorization.storage.sessions import (
    Administrations,
    Participants,
    Sessions,
    SignedInRows,
)
from valetkey.authorization.storage.signing_keys import SigningKeys
from valetkey.authorization.storage.tokens import AccessTokens, Vouchers
from valetkey.authorization.storage.usage import (
    ClientDecisions,
    ScopeUses,
    StoredSamples,
    UsageCounters,
)
from valetkey.authorization.storage.users import UserDirectory, Users
from valetkey.database.engine import Connection, Engine, T
from valetkey.kernel.moment import Instant
from valetkey.kernel.replace import replace

S_co = TypeVar("S_co", covariant=True)
L = TypeVar("L", bound=Listener)


class Opened(Protocol[S_co]):
    """An attribute of a transaction: the store, opened on its connection."""

    def __get__(self, tx: "Transaction", owner: object = None, /) -> S_co:
        """Return the store."""
        ...


def _store(of: Callable[[Connection], S_co]) -> Opened[S_co]:
    # A property, because its getter is found in C: every look-up of a key takes this path.
    return cast("Opened[S_co]", property(lambda tx: of(tx.db)))


def _random_store(
    of: Callable[[Connection, Callable[[int], bytes]], S_co],
) -> Opened[S_co]:
    return cast("Opened[S_co]", property(lambda tx: of(tx.db, tx.random)))


class SignInMethods(Struct, frozen=True):
    """What users can sign in with that a feature keeps, beside passwords and passkeys."""

    exist: Callable[["Transaction", Uid], bool]
    """Return whether the user has one, so that another one is not the last."""
    remove_added: Callable[["Transaction", Uid, Instant, str, Instant], None]
    """Remove those added at the first time or later, for this reason, with an event each."""


class UpstreamServer(Protocol):
    """Another server whose claims about users are kept."""

    @property
    def issuer(self) -> str:
        """Its issuer."""
        ...

    @property
    def keep_claims(self) -> Collection[str]:
        """The names of the claims that are kept."""
        ...


class UpstreamClaims(Struct, frozen=True):
    """What other servers said about users, as far as it is kept for claims of tokens."""

    servers: Callable[["Transaction"], Mapping[str, UpstreamServer]]
    """Return these servers, by id."""
    of_user: Callable[["Transaction", Uid], Mapping[str, Mapping[str, object]]]
    """Return the kept claims of a user by issuer, as long as `User.membership_number` is the same.
    """


class SubjectNames(Struct, frozen=True):
    """Names objects of one kind, as in `Event.subject`.

    `find` takes an id; it returns the object's name and the address of its page in the console, ""
    for none. None if there is no such object.
    """

    kind: str
    find: Callable[["Transaction", str], tuple[str, str] | None]


class Hooks(Struct, frozen=True):
    """What features do in transactions of the core."""

    listeners: tuple[Listener, ...] = ()
    """They receive events."""
    client_deleted: tuple[Callable[[Connection, str], None], ...] = ()
    """They delete their rows of a client with it."""
    attributes: tuple[Callable[[Connection], Sequence[Attribute]], ...] = ()
    """They return what operators declare about accounts; the values are part of the user."""
    claims: tuple[Callable[[Connection], Sequence[ExtraClaim]], ...] = ()
    """They return what tokens have beyond the protocol; what changes it bumps the revision."""
    restored: tuple[Callable[[Connection, Instant], None], ...] = ()
    """They end what was valid in a database that was restored from a backup."""
    user_deleted: tuple[Callable[[Connection, Uid], None], ...] = ()
    """They delete their rows of a user with the account."""
    user_exported: tuple[Callable[["Transaction", Uid], Mapping[str, object]], ...] = ()
    """They return what they keep of a user, as members of the export of the account."""
    sign_in_methods: tuple[SignInMethods, ...] = ()
    upstream_claims: tuple[UpstreamClaims, ...] = ()
    group_deleted: tuple[Callable[[Connection, str], None], ...] = ()
    """They delete their rows of a group, by its id, with it."""
    subjects_named: tuple[SubjectNames, ...] = ()
    """They name the objects that events are about."""
    directory_named: tuple[Callable[["Transaction", str], str], ...] = ()
    """They return the name of a directory by its credential; "" for one they do not have."""


NO_HOOKS = Hooks()


class Transaction(Struct, frozen=True):
    """All stores, within one database transaction."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None
    noted: list[Event] = field(default_factory=list[Event])
    """The events that it wrote; they are final once it is committed."""
    hooks: Hooks = NO_HOOKS
    """What features do in it."""
    origin: RequestOrigin = NOWHERE
    """Where its request came from."""

    clients = _store(Clients)
    apis = _store(Apis)
    applied = _store(Applied)
    nodes = _store(Nodes)
    backups = _store(Backups)
    logos = _store(Logos)
    registrations = _store(Registrations)
    invitations = _store(InitialAccessTokens)
    team_invitations = _store(TeamInvitations)
    secrets = _store(Secrets)
    members = _store(Members)
    usage = _store(UsageCounters)
    request_samples = _random_store(StoredSamples)
    users = _store(Users)
    pictures = _store(Pictures)
    response_times = _store(ResponseTimes)
    user_directory = _store(UserDirectory)
    groups = _random_store(Groups)
    api_roles = _random_store(ApiRoles)
    account_removals = _store(AccountRemovals)
    sessions = _store(Sessions)
    presences = _store(SignedInRows)
    administrations = _store(Administrations)
    api_tokens = _store(ApiTokens)
    client_search = _store(ClientSearch)
    audit_chain = _store(AuditChain)
    audit_exports = _store(AuditExports)
    event_search = _store(EventSearch)
    restoration = _store(Restoration)
    credentials = _store(Credentials)
    devices = _store(RememberedDevices)
    participants = _store(Participants)
    outbox = _store(Outbox)
    deliveries = _store(LogoutQueue)
    mails = _store(EmailQueue)
    consents = _store(Consents)
    connected = _store(Connected)
    grants = _store(Grants)
    scope_uses = _store(ScopeUses)
    access_tokens = _store(AccessTokens)
    vouchers = _store(Vouchers)
    revocations = _store(Revocations)
    bulk_revocations = _store(BulkRevocations)
    signing_keys = _store(SigningKeys)
    throttles = _store(Throttles)
    brand = _store(BrandChanges)
    stored_settings = _store(StoredSettings)
    decisions = _store(ClientDecisions)
    event_origins = _store(EventOrigins)

    def acting(self, done_by: DoneBy) -> "Transaction":
        """Return this transaction with an actor that is only known inside of it."""
        return replace(self, done_by=done_by)

    def has_other_sign_in_method(self, uid: Uid) -> bool:
        """Return whether the user can sign in with something that a feature keeps."""
        return any(methods.exist(self, uid) for methods in self.hooks.sign_in_methods)

    def upstream_servers(self) -> Mapping[str, UpstreamServer]:
        """Return the servers whose claims about users are kept, by id."""
        return {
            name: server
            for kept in self.hooks.upstream_claims
            for name, server in kept.servers(self).items()
        }

    def upstream_claims(self, uid: Uid) -> Mapping[str, Mapping[str, object]]:
        """Return what other servers said about the user as far as it is kept, by issuer."""
        claims = self.hooks.upstream_claims
        return {
            issuer: values for kept in claims for issuer, values in kept.of_user(self, uid).items()
        }

    def attributes(self) -> Sequence[Attribute]:
        """Return the declared attributes of accounts, at most `MOST_ATTRIBUTES`."""
        return [attribute for read in self.hooks.attributes for attribute in read(self.db)]

    def claims(self) -> Sequence[ExtraClaim]:
        """Return the claims that features add to tokens."""
        return [claim for read in self.hooks.claims for claim in read(self.db)]

    @property
    def events(self) -> Events:
        """Events, the audit log."""
        return Events(
            self.db, self.random, self.done_by, self.noted, self.hooks.listeners, self.origin
        )


@dataclass(frozen=True, slots=True)
class Store:
    """Run functions of a `Transaction` in database transactions.

    The actor of their events is `done_by`; without it, the usual actor of each event, and an event
    that has none is refused.
    """

    engine: Engine
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None
    hooks: Hooks = default(default=NO_HOOKS, compare=False)
    records_addresses: bool = True
    """Whether IP addresses may be stored."""

    def acting(self, done_by: DoneBy) -> "ActorStore":
        """Return this store with an actor."""
        return ActorStore(self.engine, self.random, done_by, self.hooks, self.records_addresses)

    def listener(self, kind: type[L]) -> L:
        """Return the listener of this kind. Raises LookupError if the store has none."""
        for candidate in self.hooks.listeners:
            if isinstance(candidate, kind):
                return candidate
        raise LookupError(f"this store has no {kind.__name__}")

    def _reading(self, db: Connection) -> Transaction:
        return Transaction(db, self.random, hooks=self.hooks)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent snapshot; for look-ups by key."""
        return await self.engine.read(lambda db: work(self._reading(db)))

    async def read_replica(self, work: Callable[[Transaction], T | None]) -> T | None:
        """Run `work` on a snapshot of a replica; None without a result: see the engine."""
        return await self.engine.read_replica(lambda db: work(self._reading(db)))

    async def read_one(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which sends a single statement, without a transaction around it."""
        return await self.engine.read_one(lambda db: work(self._reading(db)))

    async def scan(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent snapshot; for lists and reports."""
        return await self.engine.scan(lambda db: work(self._reading(db)))

    async def write(self, work: Callable[[Transaction], T], *, done_by: DoneBy) -> T:
        """Run `work`; on return its writes are on disk; if it raised, they are undone.

        `done_by` is the actor of its events, in place of the store's; `USUAL_ACTOR` leaves it.
        """
        by = done_by or self.done_by
        # Read here: the transaction runs on a thread of its own.
        origin = ORIGIN.get()
        if origin.address and not self.records_addresses:
            origin = replace(origin, address="")
        noted: list[Event] = []

        def run(db: Connection) -> T:
            # The database may require a second run.
            noted.clear()
            done = work(Transaction(db, self.random, by, noted, self.hooks, origin))
            if any(event.affects_tokens for event in noted):
                change_token_state(db)
            return done

        done = await self.engine.write(run)
        count(noted)
        return done


@dataclass(frozen=True, slots=True)
class ActorStore(Store):
    """A store with an actor, as the command line has: its writes name one only to differ."""

    async def write(self, work: Callable[[Transaction], T], *, done_by: DoneBy = USUAL_ACTOR) -> T:
        """Run `work` as `Store` does, by the actor of this store unless `done_by` is another."""
        # No super() without arguments: a class with slots is made twice.
        return await Store.write(self, work, done_by=done_by)


LOOK_EVERY = 1.0
"""Seconds between checks for a change by another process; a check costs microseconds."""


class Followed(ABC, Generic[T]):
    """Records whose changes call `touch`, which `Engine.changed` announces to every process.

    A change takes effect within two seconds in every process, and at once in one that calls
    `refresh`.
    """

    _changed = -1

    @abstractmethod
    def read(self, tx: Transaction) -> T:
        """Return the records."""

    @abstractmethod
    def apply(self, stored: T) -> None:
        """Use the records from now on; they may be as before."""

    async def refresh(self, store: Store) -> None:
        """Read and apply the records, if anything in the register changed."""
        changed = store.engine.changed()
        if changed == self._changed:
            return
        self.apply(await store.read(self.read))
        # Last: what could not be applied is read again.
        self._changed = changed

    async def follow_changes(self, store: Store) -> None:
        """Follow changes by other processes, for as long as the server runs."""
        while True:
            await self.refresh(store)
            await asyncio.sleep(LOOK_EVERY)
