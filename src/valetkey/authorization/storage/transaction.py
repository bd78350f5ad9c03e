"""Transaction and Store: every store of the authorization server under one name."""

from collections.abc import Callable
from dataclasses import dataclass
from dataclasses import field as default

from msgspec import Struct, field

from valetkey.authorization.model.event.event import DoneBy, Event
from valetkey.authorization.storage.administration.api_roles import ApiRoles
from valetkey.authorization.storage.administration.api_tokens import ApiTokens
from valetkey.authorization.storage.administration.audit_chain import AuditChain, AuditExports
from valetkey.authorization.storage.administration.client_search import ClientSearch
from valetkey.authorization.storage.administration.event_search import EventSearch
from valetkey.authorization.storage.administration.groups import Groups
from valetkey.authorization.storage.administration.people import People
from valetkey.authorization.storage.administration.response_times import ResponseTimes
from valetkey.authorization.storage.administration.restoration import Restoration
from valetkey.authorization.storage.administration.scim import (
    GROUPS_NAMED,
    USERS_NAMED,
    ScimCredentials,
    ScimGroups,
    ScimUsers,
    ScimView,
)
from valetkey.authorization.storage.administration.user_imports import UserImports
from valetkey.authorization.storage.administration.webhooks import WantedEvents, Webhooks
from valetkey.authorization.storage.decisions import Decisions
from valetkey.authorization.storage.grants import Grants
from valetkey.authorization.storage.outbox import EmailQueue, LogoutQueue, Outbox, WebhookQueue
from valetkey.authorization.storage.records import Events, count
from valetkey.authorization.storage.register.apis import Apis
from valetkey.authorization.storage.register.clients import Clients
from valetkey.authorization.storage.register.connected import Connected
from valetkey.authorization.storage.register.consents import Consents
from valetkey.authorization.storage.register.declarations import BrandChanges, Declarations
from valetkey.authorization.storage.register.images import Logos, Pictures
from valetkey.authorization.storage.register.invitations import Invitations
from valetkey.authorization.storage.register.members import Members, TeamInvitations
from valetkey.authorization.storage.register.registrations import Registrations
from valetkey.authorization.storage.register.request_samples import StoredSamples
from valetkey.authorization.storage.register.secrets import Secrets
from valetkey.authorization.storage.register.usage import ScopeUses, Usage
from valetkey.authorization.storage.revision import change_token_state
from valetkey.authorization.storage.sign_in.account_removals import AccountRemovals
from valetkey.authorization.storage.sign_in.credentials import Credentials, Identities
from valetkey.authorization.storage.sign_in.devices import RememberedDevices
from valetkey.authorization.storage.sign_in.sessions import (
    Administrations,
    Participants,
    Sessions,
    SignedInRows,
)
from valetkey.authorization.storage.sign_in.throttles import Throttles
from valetkey.authorization.storage.signing_keys import SigningKeys
from valetkey.authorization.storage.tokens.access_tokens import AccessTokens
from valetkey.authorization.storage.tokens.device_codes import DeviceCodes
from valetkey.authorization.storage.tokens.endings import Endings
from valetkey.authorization.storage.tokens.revocations import Revocations
from valetkey.authorization.storage.users import Users
from valetkey.authorization.storage.vouchers import Vouchers
from valetkey.database.engine import Connection, Engine, T


class Transaction(Struct, frozen=True):
    """All stores, within one database transaction."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None
    noted: list[Event] = field(default_factory=list[Event])
    """The events that it wrote; they are final once it is committed."""
    wanted: WantedEvents = field(default_factory=WantedEvents)
    """The events for which there are webhooks."""

    def acting(self, done_by: DoneBy) -> "Transaction":
        """Return this transaction with an actor that is only known inside of it."""
        return Transaction(self.db, self.random, done_by, self.noted, self.wanted)

    @property
    def clients(self) -> Clients:
        """Clients and their secrets."""
        return Clients(self.db)

    @property
    def apis(self) -> Apis:
        """APIs, their scopes, and the grants for them."""
        return Apis(self.db)

    @property
    def declarations(self) -> Declarations:
        """Declared attributes and claims."""
        return Declarations(self.db)

    @property
    def logos(self) -> Logos:
        """Copies of clients' logos."""
        return Logos(self.db)

    @property
    def registrations(self) -> Registrations:
        """Clients that registered themselves."""
        return Registrations(self.db)

    @property
    def invitations(self) -> Invitations:
        """Initial access tokens."""
        return Invitations(self.db)

    @property
    def team_invitations(self) -> TeamInvitations:
        """Invitations into teams of apps."""
        return TeamInvitations(self.db)

    @property
    def secrets(self) -> Secrets:
        """Display data of clients' secrets."""
        return Secrets(self.db)

    @property
    def members(self) -> Members:
        """Teams of apps."""
        return Members(self.db)

    @property
    def usage(self) -> Usage:
        """Usage of apps."""
        return Usage(self.db)

    @property
    def request_samples(self) -> StoredSamples:
        """Samples of successful requests."""
        return StoredSamples(self.db, self.random)

    @property
    def users(self) -> Users:
        """Users and their passwords."""
        return Users(self.db)

    @property
    def pictures(self) -> Pictures:
        """Pictures that users uploaded."""
        return Pictures(self.db)

    @property
    def response_times(self) -> ResponseTimes:
        """Response times."""
        return ResponseTimes(self.db)

    @property
    def people(self) -> People:
        """Users, as administrators search and list them."""
        return People(self.db)

    @property
    def groups(self) -> Groups:
        """Groups of users."""
        return Groups(self.db, self.random)

    @property
    def api_roles(self) -> ApiRoles:
        """Roles of users and groups at APIs."""
        return ApiRoles(self.db, self.random)

    @property
    def scim_credentials(self) -> ScimCredentials:
        """Credentials of programs that provision users and groups."""
        return ScimCredentials(self.db)

    def scim_users(self, credential: str) -> ScimUsers:
        """Users as this SCIM credential names them."""
        return ScimView(USERS_NAMED, self.db, credential)

    def scim_groups(self, credential: str) -> ScimGroups:
        """Groups as this SCIM credential names them."""
        return ScimView(GROUPS_NAMED, self.db, credential)

    @property
    def user_imports(self) -> UserImports:
        """Imports of users from files."""
        return UserImports(self.db)

    @property
    def account_removals(self) -> AccountRemovals:
        """Planned and finished removals of accounts."""
        return AccountRemovals(self.db)

    @property
    def sessions(self) -> Sessions:
        """Sessions."""
        return Sessions(self.db)

    @property
    def presences(self) -> SignedInRows:
        """Sessions with their user and consent, in one query."""
        return SignedInRows(self.db)

    @property
    def administrations(self) -> Administrations:
        """Sessions signed in to the administration."""
        return Administrations(self.db)

    @property
    def identities(self) -> Identities:
        """Linked accounts at other servers."""
        return Identities(self.db)

    @property
    def api_tokens(self) -> ApiTokens:
        """API tokens for administration."""
        return ApiTokens(self.db)

    @property
    def client_search(self) -> ClientSearch:
        """Search of clients with filters."""
        return ClientSearch(self.db)

    @property
    def audit_chain(self) -> AuditChain:
        """The hash chain of the events."""
        return AuditChain(self.db)

    @property
    def audit_exports(self) -> AuditExports:
        """The progress of the audit log's export."""
        return AuditExports(self.db)

    @property
    def event_search(self) -> EventSearch:
        """Search of events with filters."""
        return EventSearch(self.db)

    @property
    def restoration(self) -> Restoration:
        """Work after restoring a backup."""
        return Restoration(self.db)

    @property
    def credentials(self) -> Credentials:
        """Passkeys, authenticator apps, recovery codes."""
        return Credentials(self.db)

    @property
    def devices(self) -> RememberedDevices:
        """Remembered devices, which skip the second factor."""
        return RememberedDevices(self.db)

    @property
    def participants(self) -> Participants:
        """The apps that took part in a session."""
        return Participants(self.db)

    @property
    def outbox(self) -> Outbox:
        """All queued messages."""
        return Outbox(self.db)

    @property
    def deliveries(self) -> LogoutQueue:
        """Queued logout tokens."""
        return LogoutQueue(self.db)

    @property
    def mails(self) -> EmailQueue:
        """Queued emails."""
        return EmailQueue(self.db)

    @property
    def webhooks(self) -> Webhooks:
        """Webhooks and the log of attempts."""
        return Webhooks(self.db)

    @property
    def webhook_messages(self) -> WebhookQueue:
        """Events queued for webhooks."""
        return WebhookQueue(self.db)

    @property
    def consents(self) -> Consents:
        """Consents."""
        return Consents(self.db)

    @property
    def connected(self) -> Connected:
        """A user's connected apps."""
        return Connected(self.db)

    @property
    def grants(self) -> Grants:
        """Grants."""
        return Grants(self.db)

    @property
    def scope_uses(self) -> ScopeUses:
        """Scopes that clients really used."""
        return ScopeUses(self.db)

    @property
    def access_tokens(self) -> AccessTokens:
        """Access tokens by reference."""
        return AccessTokens(self.db)

    @property
    def device_codes(self) -> DeviceCodes:
        """Device codes."""
        return DeviceCodes(self.db)

    @property
    def vouchers(self) -> Vouchers:
        """Vouchers: single-use token records."""
        return Vouchers(self.db)

    @property
    def revocations(self) -> Revocations:
        """Revocations that resource servers must apply."""
        return Revocations(self.db)

    @property
    def endings(self) -> Endings:
        """Endings whose rows are still to be written."""
        return Endings(self.db)

    @property
    def signing_keys(self) -> SigningKeys:
        """Signing keys, private halves encrypted."""
        return SigningKeys(self.db)

    @property
    def throttles(self) -> Throttles:
        """Rate limits of attempts."""
        return Throttles(self.db)

    @property
    def brand(self) -> BrandChanges:
        """Changes of the brand."""
        return BrandChanges(self.db)

    @property
    def events(self) -> Events:
        """Events, the audit log."""
        return Events(self.db, self.random, self.done_by, self.noted, self.wanted)

    @property
    def decisions(self) -> Decisions:
        """Decision records: why a request was refused."""
        return Decisions(self.db)


@dataclass(frozen=True, slots=True)
class Store:
    """Run functions of a `Transaction` in database transactions.

    The actor of their events is `done_by`; without it, the usual actor of each event, and an event
    that has none is refused.
    """

    engine: Engine
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None
    wanted: WantedEvents = default(default_factory=WantedEvents, compare=False)

    def acting(self, done_by: DoneBy) -> "Store":
        """Return this store with an actor."""
        return Store(self.engine, self.random, done_by, self.wanted)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent snapshot; for look-ups by key."""
        return await self.engine.read(lambda db: work(Transaction(db, self.random)))

    async def read_one(self, work: Callable[[Transaction], T]) -> T:
        """Run `work`, which sends a single statement, without a transaction around it."""
        return await self.engine.read_one(lambda db: work(Transaction(db, self.random)))

    async def scan(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` on one consistent snapshot; for lists and reports."""
        return await self.engine.scan(lambda db: work(Transaction(db, self.random)))

    async def write(self, work: Callable[[Transaction], T], *, done_by: DoneBy | None = None) -> T:
        """Run `work`; on return its writes are on disk; if it raised, they are undone.

        `done_by` is the actor of its events, in place of the store's.
        """
        by = done_by or self.done_by
        noted: list[Event] = []

        def run(db: Connection) -> T:
            # The database may require a second run.
            noted.clear()
            done = work(Transaction(db, self.random, by, noted, self.wanted))
            if any(event.affects_tokens for event in noted):
                change_token_state(db)
            return done

        done = await self.engine.write(run)
        count(noted)
        return done
