"""The requirement of every console page: a role that allows it, and a recent proof of identity."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from valetkey.authorization.actions.admin.permissions import Permission, Person, Powers, powers_of
from valetkey.authorization.authentication.administration import (
    AdministrationCookie,
    enter,
    find_entered,
    fresh_entry,
    is_stale,
)
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.authentication.session import SignedIn
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.site.page import (
    Concealed,
    Interrupt,
    SeeOther,
    SignedInRequest,
    confirmation_needed,
)
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Pairs, Request
from valetkey.web.form import Form

ADMIN = "/admin"
"""The first page of the console: the only one where a stranger is asked to sign in."""

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True)
class AdminRequest:
    """A request of a user whose role allows it.

    `powers` decide what a page shows; operations ask again, in the transaction that acts.
    """

    visitor: SignedInRequest
    actor: Person
    powers: Powers

    @property
    def request(self) -> Request:
        """The HTTP request."""
        return self.visitor.request

    @property
    def user(self) -> User:
        """The administrator."""
        return self.visitor.user

    @property
    def headers(self) -> Pairs:
        """Headers of the page that answers."""
        return self.visitor.headers

    @property
    def csrf(self) -> str:
        """The token for the forms of the page that answers."""
        return self.visitor.csrf

    @property
    def now(self) -> Instant:
        """When the request arrived."""
        return self.visitor.now

    @property
    def arguments(self) -> Mapping[str, str]:
        """The variable segments of the path."""
        return self.visitor.request.arguments

    @property
    def form(self) -> Form:
        """The submitted form; empty for GET."""
        return self.visitor.form

    @property
    def query(self) -> Form:
        """The parameters of the address. Raises Refused for a malformed query."""
        return self.visitor.query


def administrator(
    permission: Permission = Permission.READ, *, recent: bool = False
) -> Concealed[AdminRequest]:
    """Require a role with this permission; `recent` also requires proof within ten minutes."""
    return administrator_for(lambda _: permission, lambda _: "" if recent else None)


def administrator_for(
    permission: Callable[[Request], Permission], returns_to: Callable[[Request], str | None]
) -> Concealed[AdminRequest]:
    """Require the permission that the request needs.

    `returns_to` is None for a request without recent proof; otherwise the address to which that
    proof leads back, "" for the path of the request.
    """

    def admits(browsers: Browsers, request: Request, found: SignedIn | None) -> None:
        if found is None:
            if request.path != ADMIN and not browsers.cookies.session(request):
                raise nothing_here()
        elif found.user.role is None or not powers_of(found.user.role).allow(permission(request)):
            raise nothing_here()

    async def meets(browsers: Browsers, request: SignedInRequest) -> AdminRequest:
        entered = await _enter(browsers, request)
        to = returns_to(request.request)
        if to is not None:
            await _prove(browsers, entered, to)
        person = Person(request.user.uid, request.session.id)
        return AdminRequest(entered, person, powers_of(request.user.role))

    return Concealed(admits, meets)


async def _enter(browsers: Browsers, request: SignedInRequest) -> SignedInRequest:
    """Begin or continue the administration session, which ends earlier than the sign-in session."""
    session, now = request.session, request.now
    cookies = AdministrationCookie(browsers.cookies.secure)
    key, settings = browsers.keyring.fingerprint_key, browsers.administration
    cookie = cookies.read(request.request)
    entry = await browsers.store.read(
        lambda tx: find_entered(tx, session.id, cookie, key, settings, now)
    )
    if entry is None:
        await _prove(browsers, request, "" if request.request.method in _READS else ADMIN)
        fresh = fresh_entry(browsers.random)
        await browsers.store.write(
            lambda tx: enter(tx, session.id, fresh, key, settings, now),
            done_by=by_user(session.uid),
        )
        return replace(request, headers=(*request.headers, cookies.set(fresh)))
    if is_stale(entry, now):
        await browsers.store.write(
            lambda tx: tx.administrations.touch(session.id, now), done_by=by_user(session.uid)
        )
    return request


async def _prove(browsers: Browsers, request: SignedInRequest, returns_to: str) -> None:
    asks = await confirmation_needed(browsers, request.request, request.signed_in, returns_to)
    if asks:
        raise Interrupt(SeeOther(asks, request.headers))


def nothing_here() -> Refused:
    """Return the refusal of an address that does not exist."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, "nothing is at this address", "http.path"))


def with_query(address: str, parameters: Mapping[str, str]) -> str:
    """Return the address with those parameters that are not empty."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{address}?{query}" if query else address
