"""What a feature gives to the server: one record for each, which the composition root reads.

Commands read it, too: it imports no pages, which load templates.
"""

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Never, Protocol, TypeVar

from msgspec import Struct, field

from valetkey.authorization.actions.admin.search import SearchKind
from valetkey.authorization.actions.inspection.check import DatabaseCheck
from valetkey.authorization.actions.presets import DeveloperPolicy
from valetkey.authorization.actions.users import Accounts
from valetkey.authorization.applying import DeclaredKind
from valetkey.authorization.background.maintenance import Gauges, Sweep
from valetkey.authorization.email.notices import Notices
from valetkey.authorization.grant_types.grant_type import GrantType
from valetkey.authorization.layout.contexts import AccountNotice
from valetkey.authorization.model.event.event import Event
from valetkey.authorization.model.user import User
from valetkey.authorization.operations.operation import ListLink, ObjectLink, Operation, Services
from valetkey.authorization.protocol.register.client_rules import GrantTypes
from valetkey.authorization.storage.transaction import Hooks, Store, Transaction
from valetkey.authorization.tokens.identity_assertion import TrustedIssuer
from valetkey.authorization.tokens.signing_keys import SigningKeyRing
from valetkey.config.settings import Settings
from valetkey.fetch.outbound import OutboundHttp
from valetkey.kernel.keyring import Keyring
from valetkey.kernel.moment import Instant
from valetkey.kernel.runtime import Runtime

if TYPE_CHECKING:
    from valetkey.authorization.actions.inspection.inspector import Inspector
    from valetkey.authorization.endpoints.authorize.pending import OwnCallback, Server
    from valetkey.authorization.endpoints.client.request import (
        ClientRefusal,
        ClientRequestAuthentication,
    )
    from valetkey.authorization.site.account.security.overview import SecuritySections
    from valetkey.authorization.site.page import AnyPage
    from valetkey.authorization.site.sign_in.flow import SignInFlow
    from valetkey.authorization.site.sign_in.sign_in import SignInLinks
    from valetkey.web.exchange import Endpoint, Refuse
    from valetkey.web.router import Route

M = TypeVar("M")

Job = Callable[[], Coroutine[object, object, None]]
"""Runs in the background of every worker until it is cancelled."""

Reseal = Callable[[str, str, str], str]
"""Seals again what was sealed, in this context; the third is what to call it in a message."""


class Memory(Protocol):
    """What a feature keeps in memory of the database, such as a `Followed`."""

    async def refresh(self, store: Store) -> None:
        """Read it if something changed."""
        ...

    async def follow_changes(self, store: Store) -> None:
        """Follow changes by other processes, for as long as the server runs."""
        ...


class Parts(Struct, frozen=True):
    """What a running server has."""

    store: Store
    keyring: Keyring
    outgoing: OutboundHttp
    runtime: Runtime
    notices: Notices
    keys: SigningKeyRing
    accounts: Accounts
    settings: Settings
    kinds: Mapping[str, type[Event]]
    """Every event, by name."""
    inspector: "Inspector"
    """Makes the checks of the console's overview, one evaluation at a time in each worker."""
    memory: tuple[Memory, ...] = ()
    """What features keep in memory, see `Feature.memory`."""

    def kept(self, kind: type[M]) -> M:
        """Return what is kept in memory of this kind. Raises LookupError if nothing is."""
        for kept in self.memory:
            if isinstance(kept, kind):
                return kept
        raise LookupError(f"this server keeps no {kind.__name__}")


class Site(Struct, frozen=True):
    """What pages for visitors and users are built from."""

    parts: Parts
    services: Services
    server: "Server"
    flow: "SignInFlow"
    token: "Endpoint"
    """The token endpoint, for pages that show its response."""
    userinfo: "Endpoint"


class EndpointParts(Struct, frozen=True):
    """What endpoints of the protocol are built from."""

    services: Services
    server: "Server"
    client_auth: "ClientRequestAuthentication"
    refuse: "ClientRefusal"
    """Answers with JSON."""
    refuse_with_page: "Refuse"
    """Answers people."""


class NeededServer(Struct, frozen=True):
    """Another server that this one sends requests to: `valetkey doctor` sends a HEAD request."""

    name: str
    """What it is called in the finding."""
    address: str
    path: str
    advice: str
    """What it means that it cannot be reached, and what to do."""
    guide: str
    """The page of the documentation, without its ending."""


def _absent(*_: object) -> None:
    return None


def _nothing(*_: object) -> tuple[()]:
    return ()


def _no_members(*_: object) -> Mapping[str, Never]:
    return {}


def _no_hooks(_: Settings) -> Hooks:
    return Hooks()


class CommandGroup(Struct, frozen=True):
    """A group of commands.

    Those of operations are in it whose paths begin with its plural; see also `Feature.handwritten`.
    """

    name: str
    purpose: str
    """Its summary in the list of all commands."""
    help: str
    guide: str
    """The page of the documentation that helps with an error of it."""
    examples: Mapping[str, str]
    """A value of each argument, for the examples in the help."""
    heading: str = "Manage"
    """The part of the list of all commands that it is in."""


class Feature(Struct, frozen=True):
    """A feature: what the server takes from it."""

    name: str
    events: tuple[type[Event], ...] = ()
    operations: tuple[Operation, ...] = ()
    tag: str = ""
    """The tag of its operations in the OpenAPI document; its name if empty."""
    core_operations: Mapping[str, tuple[Operation, ...]] = field(
        default_factory=dict[str, tuple[Operation, ...]]
    )
    """Its operations on objects of the core, by the tag of those."""
    commands: tuple[CommandGroup, ...] = ()
    handwritten: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its commands that do not follow from operations, also in groups of the core.

    By their path, each with the page of the documentation that helps with an error of it. They are
    the `COMMANDS` of its module `commands`, which is imported when such a group is called.
    """
    hooks: Callable[[Settings], Hooks] = _no_hooks
    """Makes what it does in transactions of others; each store has its own."""
    console: "Callable[[Services], tuple[AnyPage, ...]]" = _nothing
    console_after: tuple[str, ...] = ()
    """The path of the page, itself or above others, that they follow in the navigation.

    Of several the first that exists, because those of another feature can be gone.
    """
    console_places: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict[str, tuple[str, ...]]
    )
    """The same for those at or below a path that follow another one."""
    links: tuple[ObjectLink, ...] = ()
    """Links to its pages on the console's pages of the core's objects."""
    users_links: tuple[ListLink, ...] = ()
    """Links to its pages above the list of users."""
    search_kinds: Callable[[Services], tuple[SearchKind, ...]] = _nothing
    """Its objects that the search of the console finds."""
    app_pages: "Callable[[Services, str], tuple[AnyPage, ...]]" = _nothing
    """Its pages about an app, for the app's team, in this template of the area that shows them."""
    area: "Callable[[Site, Callable[[str], tuple[AnyPage, ...]]], tuple[AnyPage, ...]]" = _nothing
    """Pages of an area of its own, in the order of its navigation.

    The second argument makes the `app_pages` of all features, in this template of the area.
    """
    developers: Callable[[Settings], DeveloperPolicy | None] = _absent
    """Which users register apps, from the one that has the pages for it."""
    own_callback: "Callable[[Services], OwnCallback | None]" = _absent
    """Redirect URIs on this server that it accepts in authorization requests of one session."""
    scopes: Mapping[str, str] = MappingProxyType({})
    """Scopes of its endpoints at the default API, with what users are asked for.

    Clients with a registered one request it from a user or for themselves; developers cannot
    register it.
    """
    visitor: "Callable[[Site], tuple[AnyPage, ...]]" = _nothing
    """Its pages outside of the areas; each says itself whether it needs a session."""
    account_notices: Callable[[Transaction, User, Instant], Sequence[AccountNotice]] = _nothing
    """What it tells a user on the overview of the account; a few rows, read at each visit."""
    account: "Callable[[Site], tuple[AnyPage, ...]]" = _nothing
    """Its pages of the account area."""
    sign_in_links: "Callable[[Site], tuple[SignInLinks, ...]]" = _nothing
    """Other ways to sign in, offered by the sign-in page."""
    security: "Callable[[Site], tuple[SecuritySections, ...]]" = _nothing
    """Sections of the page about the security of an account."""
    memory: Callable[[Services], tuple[Memory, ...]] = _nothing
    """What it keeps in memory: read before the server starts, and again after each change.

    Raises OperatorError for settings with which the server cannot start.
    """
    trusted_issuers: Callable[[Parts], Mapping[str, TrustedIssuer]] = _no_members
    """Servers whose identity assertions are accepted, by issuer."""
    check_settings: Callable[[Settings, GrantTypes], object] = _nothing
    """Raises OperatorError if its settings allow a grant type that does not exist."""
    check_scopes: Callable[[Settings, Collection[str]], object] = _nothing
    """Raises OperatorError if its settings have others than these, which users can be asked for."""
    needed_servers: Callable[[Settings], tuple[NeededServer, ...]] = _nothing
    """Other servers that it needs; `valetkey doctor` looks whether they respond."""
    endpoints: "Callable[[EndpointParts], tuple[Route, ...]]" = _nothing
    """Its routes for programs."""
    metadata: Callable[[str], Mapping[str, object]] = _no_members
    """Its members of the discovery documents, by the issuer (RFC 8414)."""
    grant_types: tuple[GrantType, ...] = ()
    """Its grant types of the token endpoint."""
    jobs: Callable[[Parts], tuple[Job, ...]] = _nothing
    sweeps: tuple[Sweep, ...] = ()
    gauges: tuple[Gauges, ...] = ()
    checks: tuple[DatabaseCheck, ...] = ()
    declared: tuple[DeclaredKind, ...] = ()
    """Its objects in the file of `valetkey apply`."""
    reseals: Callable[[Transaction, Reseal], object] = _nothing
    """Seals again what it keeps sealed, after a change of the keyring."""
