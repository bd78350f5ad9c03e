"""/account/connections: accounts at identity providers that are linked with this one."""

from collections.abc import Collection
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.authentication.session import find_still_signed_in
from valetkey.authorization.email.notices import SignInMethod
from valetkey.authorization.feature import Site
from valetkey.authorization.layout.addresses import SECURITY
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.user import Uid
from valetkey.authorization.providers.model import Identity
from valetkey.authorization.providers.pages.visitor import (
    CONNECTIONS,
    Federation,
)
from valetkey.authorization.providers.rules.identities import (
    UnlinkedIdentity,
    UpstreamPurpose,
    connect,
    disconnect,
    has_other_sign_in_method,
)
from valetkey.authorization.providers.rules.registry import Providers
from valetkey.authorization.providers.storage import Identities
from valetkey.authorization.site.account.security.overview import SecuritySection, SecuritySections
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    confirmed_before,
    not_found,
    signed_in,
)
from valetkey.authorization.site.sign_in.sign_in import SignInLink
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.secret import same
from valetkey.kernel.text import translatable


class Connection(Struct, frozen=True):
    """A linked account. `key` identifies it in the form that unlinks it."""

    key: str
    provider: str
    shown: str
    since: When
    last_used: When | None
    #: Whether another way to sign in remains.
    can_end: bool


class ConnectionsPage(Struct, frozen=True):
    """List linked accounts, unlink one, link another. Unlinking posts `csrf` and `connection`."""

    template: ClassVar[str] = "providers/connections.html"

    action: str
    connections: tuple[Connection, ...]
    #: Providers that can be connected.
    providers: tuple[SignInLink, ...]
    #: The provider the user just came from, and the user's name there.
    arrived_from: str = ""
    arrived_as: str = ""
    #: The name of the provider that was just linked, unlinked, or is linked to another user.
    connected: str = ""
    ended: bool = False
    taken: str = ""


_NEWS = minutes(5)


class Connections(Struct, frozen=True):
    """List the linked accounts; link another, unlink one."""

    federation: Federation

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        act = Act(self.change, requires=confirmed_before(CONNECTIONS))
        title = translatable("Linked accounts")
        return (Page(CONNECTIONS, signed_in, self.show, act, title=title, under=SECURITY),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the linked accounts, and one that was authenticated just now."""
        uid, now, usable = request.user.uid, request.now, self.federation.providers.issuers
        connections = await self.federation.server.store.read(lambda tx: _read(tx, uid, usable))
        query = request.query
        browser = self.federation.server.cookies.browser(request.request)
        unlinked = self.federation.unlinked(request.request)
        connected = self._name(query.get("connected"))
        return Show(
            ConnectionsPage(
                action=CONNECTIONS,
                connections=tuple(
                    Connection(
                        key=self._key(identity),
                        provider=self._name_of_issuer(identity.issuer),
                        shown=identity.shown,
                        since=When(identity.linked_at, now),
                        last_used=None
                        if identity.last_used_at is None
                        else When(identity.last_used_at, now),
                        can_end=can_end,
                    )
                    for identity, can_end in connections
                ),
                providers=self.federation.links(
                    browser, UpstreamPurpose.CONNECT, request.session.id
                ),
                arrived_from="" if unlinked is None else self._name(unlinked.provider),
                arrived_as="" if unlinked is None else _shown(unlinked),
                connected=connected if _is_recently_linked(connections, now) else "",
                ended=query.get("ended") is not None,
                taken=self._name(query.get("taken")),
            )
        )

    async def change(self, request: SignedInRequest) -> Outcome:
        """Unlink an account, or link the one that was authenticated."""
        if request.form.get("arrived") is not None:
            return await self._connect(request)
        key = request.form.get("connection") or ""
        user, now, usable = request.user, request.now, self.federation.providers.issuers
        identities = await self.federation.server.store.read(
            lambda tx: Identities.of(tx).of_user(user.uid)
        )
        named = next((identity for identity in identities if same(self._key(identity), key)), None)
        if named is None:
            raise not_found("connection")

        def unlink(tx: Transaction) -> bool:
            return disconnect(tx, user, named.issuer, named.subject, now, usable)

        ended = await self.federation.server.store.write(unlink, done_by=request.actor)
        return SeeOther(f"{CONNECTIONS}?ended=1" if ended else CONNECTIONS)

    async def _connect(self, request: SignedInRequest) -> SeeOther:
        now, session_id = request.now, request.session.id
        unlinked = self.federation.unlinked(request.request)
        if unlinked is None:
            return SeeOther(CONNECTIONS)

        def link(tx: Transaction) -> bool:
            claimed = self.federation.pending_sign_ins.with_claims(tx, unlinked, now)
            asking = find_still_signed_in(tx, session_id, self.federation.server.sessions, now)
            if asking is None or not connect(tx, asking.user, claimed, now):
                return False
            self.federation.notices.sign_in_method_added(
                tx, asking.user, SignInMethod.ELSEWHERE, now, CONNECTIONS
            )
            return True

        done = (
            "connected"
            if await self.federation.server.store.write(link, done_by=request.actor)
            else "taken"
        )
        to = f"{CONNECTIONS}?{done}={unlinked.provider}"
        return SeeOther(to, (self.federation.deleted_cookie(),))

    def _key(self, identity: Identity) -> str:
        text = f"{identity.issuer} {identity.subject}"
        return self.federation.server.keyring.fingerprint_key.fingerprint("connection", text)

    def _name(self, provider: str | None) -> str:
        named = None if provider is None else self.federation.providers.find(provider)
        return "" if named is None else named.settings.name

    def _name_of_issuer(self, issuer: str) -> str:
        provider = self.federation.providers.of_issuer(issuer)
        return issuer if provider is None else provider.settings.name


def _read(tx: Transaction, uid: Uid, usable: Collection[str]) -> list[tuple[Identity, bool]]:
    return [
        (identity, has_other_sign_in_method(tx, uid, identity.issuer, identity.subject, usable))
        for identity in Identities.of(tx).of_user(uid)
    ]


def _is_recently_linked(connections: list[tuple[Identity, bool]], now: Instant) -> bool:
    return any(identity.linked_at + _NEWS > now for identity, _ in connections)


def _shown(unlinked: UnlinkedIdentity) -> str:
    claimed = unlinked.claimed
    return claimed.email or claimed.username or claimed.name or claimed.subject


class LinkedAccountsSection(Struct, frozen=True):
    """The section of the security page, with the number of linked accounts."""

    template: ClassVar[str] = "providers/section.html"

    linked: int
    url: str = CONNECTIONS


def security(site: Site) -> SecuritySections:
    """Return the section of a user: none without linked accounts where there is no provider."""
    providers = site.parts.kept(Providers)

    def sections(tx: Transaction, uid: Uid) -> tuple[SecuritySection, ...]:
        linked = len(Identities.of(tx).of_user(uid))
        return (LinkedAccountsSection(linked),) if linked or providers.all else ()

    return sections


def pages(site: Site) -> tuple[AnyPage, ...]:
    """Return the pages of the account area."""
    return Connections(Federation.from_site(site)).pages()
