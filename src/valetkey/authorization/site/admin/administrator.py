"""The requirement of every console page: a role that allows it, and a recent proof of identity."""

from collections.abc import Callable, Mapping
from urllib.parse import urlencode

from msgspec import Struct

from valetkey.authorization.actions.admin.permissions import (
    Actor,
    ActorPermissions,
    Permission,
    UserActor,
    permissions_of,
)
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.layout.addresses import ADDRESSES
from valetkey.authorization.model.event.event import by_user
from valetkey.authorization.model.user import User
from valetkey.authorization.site.page import (
    PageVisit,
    Requirement,
    SignedInRequest,
    VisitorRequest,
    require_confirmed,
    signed_in_request,
)
from valetkey.authorization.storage.sessions import Administration
from valetkey.authorization.storage.transaction import Transaction
from valetkey.config.sections.people import AdministrationSettings
from valetkey.kernel.moment import Instant, is_live, later, minutes
from valetkey.kernel.refusal import ErrorCode, Refused
from valetkey.kernel.secret import (
    FingerprintKey,
    Prefix,
    Secret,
    fresh_secret,
    same,
    well_formed,
)
from valetkey.kernel.text import translatable
from valetkey.web.exchange import READS, Interrupt, Pairs, Request, see_other

PURPOSE = "administration"
"""The purpose under which the cookies are fingerprinted."""

_SEEN_EVERY = minutes(1)


class AdministrationCookie(Struct, frozen=True):
    """A cookie that is sent only with requests from pages of this server."""

    secure: bool

    @property
    def name(self) -> str:
        """The name of the cookie."""
        return "__Host-administration" if self.secure else "valetkey-administration"

    def read(self, request: Request) -> str:
        """Return the cookie; "" if it is missing or malformed."""
        value = request.cookie(self.name)
        if value is None or not well_formed(Prefix.ADMINISTRATION, value):
            return ""
        return value

    def set(self, cookie: Secret) -> tuple[str, str]:
        """Set the cookie until the browser is closed or the server ends it."""
        secure = "; Secure" if self.secure else ""
        return (
            "set-cookie",
            f"{self.name}={cookie.reveal()}; Path=/; HttpOnly; SameSite=Strict{secure}",
        )


def fresh_entry(random: Callable[[int], bytes]) -> Secret:
    """Generate the cookie of a sign-in to the administration."""
    return fresh_secret(Prefix.ADMINISTRATION, random)


def enter(
    tx: Transaction,
    session_id: str,
    cookie: Secret,
    key: FingerprintKey,
    settings: AdministrationSettings,
    now: Instant,
) -> None:
    """Sign in a user who has just proved their identity."""
    tx.administrations.enter(
        Administration(
            session_id=session_id,
            fingerprint=key.fingerprint(PURPOSE, cookie.reveal()),
            entered_at=now,
            last_seen_at=now,
            expires_at=later(now, settings.lifetime),
        )
    )


def find_entered(
    tx: Transaction,
    session_id: str,
    cookie: str,
    key: FingerprintKey,
    settings: AdministrationSettings,
    now: Instant,
) -> Administration | None:
    """Return the admin session of this session and cookie unless it expired."""
    entry = tx.administrations.find(session_id) if cookie else None
    if entry is None or not same(entry.fingerprint, key.fingerprint(PURPOSE, cookie)):
        return None
    # Both lifetimes by the current settings: a shorter one applies at once.
    if not is_live(entry.entered_at, later(entry.entered_at, settings.lifetime), now):
        return None
    return None if later(entry.last_seen_at, settings.idle) <= now else entry


def is_stale(entry: Administration, now: Instant) -> bool:
    """Return whether its last use should be recorded again; at most once a minute."""
    return later(entry.last_seen_at, _SEEN_EVERY) <= now


ADMIN = ADDRESSES["admin"]
"""The first page of the console."""

PEOPLE = translatable("People")
APPS_AND_APIS = translatable("Apps and APIs")
SERVER = translatable("Server")
"""The headings of the navigation."""


class AdminRequest(VisitorRequest, frozen=True, kw_only=True):
    """A request by a user with the required role.

    `powers` decide what a page shows; operations check again, in the transaction that acts.
    """

    user: User
    actor: UserActor
    permissions: ActorPermissions

    @property
    def viewer(self) -> User | None:
        """The administrator."""
        return self.user


def administrator(
    permission: Permission = Permission.READ, *, recent: bool = False, polled: bool = False
) -> Requirement[AdminRequest]:
    """Require a role with this permission; `recent` also requires proof within ten minutes.

    A `polled` page is requested by a script: it does not extend the sessions.
    """
    return administrator_for(lambda _: permission, lambda _: "" if recent else None, polled=polled)


def administrator_for(
    permission: Callable[[Request], Permission],
    returns_to: Callable[[Request], str | None],
    *,
    polled: bool = False,
) -> Requirement[AdminRequest]:
    """Require the permission that the request needs.

    `returns_to` is None for a request without recent proof; otherwise the address to which that
    proof leads back, "" for the path of the request.
    """

    async def requirement(visit: PageVisit) -> AdminRequest:
        browsers, signed_in = visit.browsers, visit.request
        visitor = await browsers.signed_in(signed_in, polled=polled)
        if visitor is not None and not (
            visitor.user.role and permissions_of(visitor.user.role).allow(permission(signed_in))
        ):
            raise page_not_found()
        request = signed_in_request(visit, visitor)
        headers = await _enter(browsers, request, polled=polled)
        to = returns_to(signed_in)
        if to is not None:
            await require_confirmed(browsers, request, to)
        return AdminRequest(
            signed_in,
            request.browser,
            request.csrf,
            (*request.headers, *headers),
            request.form,
            user=request.user,
            actor=UserActor(request.user.uid, request.session.id),
            permissions=permissions_of(request.user.role),
        )

    return requirement


def actor_of(request: AdminRequest) -> Actor:
    """Return the administrator as the actor of operations."""
    return request.actor


async def _enter(browsers: Browsers, request: SignedInRequest, *, polled: bool) -> Pairs:
    """Begin or continue the administration session, which ends earlier than the sign-in session."""
    session, now = request.session, request.now
    cookies = AdministrationCookie(browsers.cookies.secure)
    key, settings = browsers.keyring.fingerprint_key, browsers.administration
    cookie = cookies.read(request.request)
    entry = await browsers.store.read(
        lambda tx: find_entered(tx, session.id, cookie, key, settings, now)
    )
    if entry is None and polled:
        raise Interrupt(see_other(ADMIN))
    if entry is None:
        await require_confirmed(browsers, request, "" if request.request.method in READS else ADMIN)
        fresh = fresh_entry(browsers.random)
        await browsers.store.write(
            lambda tx: enter(tx, session.id, fresh, key, settings, now),
            done_by=by_user(session.uid),
        )
        return (cookies.set(fresh),)
    if is_stale(entry, now) and not polled:
        await browsers.store.write(
            lambda tx: tx.administrations.touch(session.id, now), done_by=by_user(session.uid)
        )
    return ()


def page_not_found() -> Refused:
    """Return the refusal of an address that does not exist."""
    return Refused.because(ErrorCode.NOT_FOUND, "this page does not exist", "http.path")


def with_query(address: str, parameters: Mapping[str, str]) -> str:
    """Return the address with those parameters that are not empty."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{address}?{query}" if query else address
