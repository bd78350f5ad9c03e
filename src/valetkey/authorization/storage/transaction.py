"""One transaction, every store under one name."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct, field

from valetkey.authorization.model.event.actor import DoneBy
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.storage.administration.answer_times import AnswerTimes
from valetkey.authorization.storage.administration.api_tokens import ApiTokens
from valetkey.authorization.storage.administration.brand import BrandChanges
from valetkey.authorization.storage.administration.client_search import ClientSearch
from valetkey.authorization.storage.administration.event_search import EventSearch
from valetkey.authorization.storage.administration.people import People
from valetkey.authorization.storage.administration.restoration import Restoration
from valetkey.authorization.storage.grants import Grants
from valetkey.authorization.storage.outbox.deliveries import Deliveries
from valetkey.authorization.storage.outbox.mails import Mails
from valetkey.authorization.storage.records import Decisions, Events, count
from valetkey.authorization.storage.register.clients import Clients
from valetkey.authorization.storage.register.connected import Connected
from valetkey.authorization.storage.register.consents import Consents
from valetkey.authorization.storage.register.invitations import Invitations
from valetkey.authorization.storage.register.logos import Logos
from valetkey.authorization.storage.register.members import Members
from valetkey.authorization.storage.register.registrations import Registrations
from valetkey.authorization.storage.register.scope_uses import ScopeUses
from valetkey.authorization.storage.register.secrets import Secrets
from valetkey.authorization.storage.register.team_invitations import TeamInvitations
from valetkey.authorization.storage.register.usage import Usage
from valetkey.authorization.storage.sign_in.account_removals import AccountRemovals
from valetkey.authorization.storage.sign_in.administrations import Administrations
from valetkey.authorization.storage.sign_in.credentials import Credentials
from valetkey.authorization.storage.sign_in.devices import RememberedDevices
from valetkey.authorization.storage.sign_in.identities import Identities
from valetkey.authorization.storage.sign_in.participants import Participants
from valetkey.authorization.storage.sign_in.presences import Presences
from valetkey.authorization.storage.sign_in.sessions import Sessions
from valetkey.authorization.storage.sign_in.throttles import Throttles
from valetkey.authorization.storage.signing_keys import SigningKeys
from valetkey.authorization.storage.tokens.access_tokens import AccessTokens
from valetkey.authorization.storage.tokens.endings import Endings
from valetkey.authorization.storage.tokens.revocations import Revocations
from valetkey.authorization.storage.users import Users
from valetkey.authorization.storage.vouchers import Vouchers
from valetkey.database.engine import Connection, Engine, T


class Transaction(Struct, frozen=True):
    """What the server remembers, for as long as one `work` runs."""

    db: Connection
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None
    noted: list[Event] = field(default_factory=list[Event])
    """The events that it wrote; they happened if it is committed."""

    def acting(self, done_by: DoneBy) -> "Transaction":
        """The same transaction on behalf of this actor, where it is known only inside of it."""
        return Transaction(self.db, self.random, done_by, self.noted)

    @property
    def clients(self) -> Clients:
        """Applications and their secrets."""
        return Clients(self.db)

    @property
    def logos(self) -> Logos:
        """Copies of their logos."""
        return Logos(self.db)

    @property
    def registrations(self) -> Registrations:
        """Applications that registered themselves."""
        return Registrations(self.db)

    @property
    def invitations(self) -> Invitations:
        """Who may register an application."""
        return Invitations(self.db)

    @property
    def team_invitations(self) -> TeamInvitations:
        """Who is asked to look after them."""
        return TeamInvitations(self.db)

    @property
    def secrets(self) -> Secrets:
        """What is known of their secrets."""
        return Secrets(self.db)

    @property
    def members(self) -> Members:
        """Whose applications are."""
        return Members(self.db)

    @property
    def usage(self) -> Usage:
        """What applications were used for."""
        return Usage(self.db)

    @property
    def users(self) -> Users:
        """People and their credentials."""
        return Users(self.db)

    @property
    def answer_times(self) -> AnswerTimes:
        """How long answers took."""
        return AnswerTimes(self.db)

    @property
    def people(self) -> People:
        """The same people, for those who look after many."""
        return People(self.db)

    @property
    def account_removals(self) -> AccountRemovals:
        """Accounts that are to go."""
        return AccountRemovals(self.db)

    @property
    def sessions(self) -> Sessions:
        """Browsers in which someone is signed in."""
        return Sessions(self.db)

    @property
    def presences(self) -> Presences:
        """The same with their person and what they allow, in one look."""
        return Presences(self.db)

    @property
    def administrations(self) -> Administrations:
        """Who entered the pages of administration."""
        return Administrations(self.db)

    @property
    def identities(self) -> Identities:
        """Who people are at other servers."""
        return Identities(self.db)

    @property
    def api_tokens(self) -> ApiTokens:
        """With which programs administer this server."""
        return ApiTokens(self.db)

    @property
    def client_search(self) -> ClientSearch:
        """The register of clients, by filters."""
        return ClientSearch(self.db)

    @property
    def event_search(self) -> EventSearch:
        """The log of events, by filters."""
        return EventSearch(self.db)

    @property
    def restoration(self) -> Restoration:
        """What a restored database must not bring back."""
        return Restoration(self.db)

    @property
    def credentials(self) -> Credentials:
        """Passkeys, authenticator apps, recovery codes."""
        return Credentials(self.db)

    @property
    def devices(self) -> RememberedDevices:
        """Browsers in which the second factor is not asked for."""
        return RememberedDevices(self.db)

    @property
    def participants(self) -> Participants:
        """Apps that were told of a session."""
        return Participants(self.db)

    @property
    def deliveries(self) -> Deliveries:
        """What apps must be told."""
        return Deliveries(self.db)

    @property
    def mails(self) -> Mails:
        """Letters on their way."""
        return Mails(self.db)

    @property
    def consents(self) -> Consents:
        """What need not be asked again."""
        return Consents(self.db)

    @property
    def connected(self) -> Connected:
        """What each app may do for a user."""
        return Connected(self.db)

    @property
    def grants(self) -> Grants:
        """What users let clients do."""
        return Grants(self.db)

    @property
    def scope_uses(self) -> ScopeUses:
        """What clients really used of that."""
        return ScopeUses(self.db)

    @property
    def access_tokens(self) -> AccessTokens:
        """Access tokens by reference."""
        return AccessTokens(self.db)

    @property
    def vouchers(self) -> Vouchers:
        """What can be redeemed once."""
        return Vouchers(self.db)

    @property
    def revocations(self) -> Revocations:
        """What resource servers must refuse."""
        return Revocations(self.db)

    @property
    def endings(self) -> Endings:
        """What has ended and is still to be written down."""
        return Endings(self.db)

    @property
    def signing_keys(self) -> SigningKeys:
        """Keys that sign tokens, sealed."""
        return SigningKeys(self.db)

    @property
    def throttles(self) -> Throttles:
        """Who must wait."""
        return Throttles(self.db)

    @property
    def brand(self) -> BrandChanges:
        """What was changed of the brand while the server ran."""
        return BrandChanges(self.db)

    @property
    def events(self) -> Events:
        """What happened."""
        return Events(self.db, self.random, self.done_by, self.noted)

    @property
    def decisions(self) -> Decisions:
        """Why something was refused."""
        return Decisions(self.db)


@dataclass(frozen=True, slots=True)
class Store:
    """The server's memory: runs functions of a `Transaction` as the engine runs transactions.

    Events that its transactions write are done by `done_by`; without it, by the usual actor of
    each event, and an event that has none is refused.
    """

    engine: Engine
    random: Callable[[int], bytes]
    done_by: DoneBy | None = None

    def acting(self, done_by: DoneBy) -> "Store":
        """The same memory on behalf of this actor."""
        return Store(self.engine, self.random, done_by)

    async def read(self, work: Callable[[Transaction], T]) -> T:
        """Run `work` against one consistent snapshot; for look-ups by key."""
        return await self.engine.read(lambda db: work(Transaction(db, self.random)))

    async def scan(self, work: Callable[[Transaction], T]) -> T:
        """The same for lists and reports."""
        return await self.engine.scan(lambda db: work(Transaction(db, self.random)))

    async def write(self, work: Callable[[Transaction], T], *, done_by: DoneBy | None = None) -> T:
        """Run `work`; what it wrote is on disk when this returns, undone if it raised.

        `done_by` is the actor of its events, in place of the store's.
        """
        by = done_by or self.done_by
        noted: list[Event] = []

        def run(db: Connection) -> T:
            # The database may ask for a second run.
            noted.clear()
            return work(Transaction(db, self.random, by, noted))

        done = await self.engine.write(run)
        count(noted)
        return done
