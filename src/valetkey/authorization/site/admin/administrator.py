"""The requirement of every console page: a role that allows it, and a recent proof of identity."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlencode

from valetkey.authorization.actions.admin.permissions import (
    ActorPermissions,
    Permission,
    Person,
    powers_of,
)
from valetkey.authorization.authentication.administration import (
    AdministrationCookie,
    enter,
    find_entered,
    fresh_entry,
    is_stale,
)
from valetkey.authorization.authentication.browsers import Browsers
from valetkey.authorization.model.account.user import User
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.site.page import (
    Requirement,
    SignedInRequest,
    Visit,
    VisitorRequest,
    require_confirmed,
    signed_in_request,
)
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.words import translatable
from valetkey.web.exchange import Pairs, Request

ADMIN = "/admin"
"""The first page of the console: the only one where a stranger is asked to sign in."""

PEOPLE = translatable("People")
APPS_AND_APIS = translatable("Apps and APIs")
SERVER = translatable("Server")
"""The headings of the navigation."""

_READS = frozenset({"GET", "HEAD"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminRequest(VisitorRequest):
    """A request by a user with the required role.

    `powers` decide what a page shows; operations check again, in the transaction that acts.
    """

    user: User
    actor: Person
    powers: ActorPermissions

    @property
    def viewer(self) -> User | None:
        """The administrator."""
        return self.user


def administrator(
    permission: Permission = Permission.READ, *, recent: bool = False
) -> Requirement[AdminRequest]:
    """Require a role with this permission; `recent` also requires proof within ten minutes."""
    return administrator_for(lambda _: permission, lambda _: "" if recent else None)


def administrator_for(
    permission: Callable[[Request], Permission], returns_to: Callable[[Request], str | None]
) -> Requirement[AdminRequest]:
    """Require the permission that the request needs.

    `returns_to` is None for a request without recent proof; otherwise the address to which that
    proof leads back, "" for the path of the request.
    """

    async def requirement(visit: Visit) -> AdminRequest:
        browsers, asked = visit.browsers, visit.request
        found = await browsers.signed_in(asked)
        if found is None:
            if asked.path != ADMIN and not browsers.cookies.session(asked):
                raise page_not_found()
        elif found.user.role is None or not powers_of(found.user.role).allow(permission(asked)):
            raise page_not_found()
        request = signed_in_request(visit, found)
        headers = await _enter(browsers, request)
        to = returns_to(asked)
        if to is not None:
            await require_confirmed(browsers, request, to)
        return AdminRequest(
            asked,
            request.browser,
            request.csrf,
            (*request.headers, *headers),
            request.form,
            user=request.user,
            actor=Person(request.user.uid, request.session.id),
            powers=powers_of(request.user.role),
        )

    return requirement


async def _enter(browsers: Browsers, request: SignedInRequest) -> Pairs:
    """Begin or continue the administration session, which ends earlier than the sign-in session."""
    session, now = request.session, request.now
    cookies = AdministrationCookie(browsers.cookies.secure)
    key, settings = browsers.keyring.fingerprint_key, browsers.administration
    cookie = cookies.read(request.request)
    entry = await browsers.store.read(
        lambda tx: find_entered(tx, session.id, cookie, key, settings, now)
    )
    if entry is None:
        await require_confirmed(
            browsers, request, "" if request.request.method in _READS else ADMIN
        )
        fresh = fresh_entry(browsers.random)
        await browsers.store.write(
            lambda tx: enter(tx, session.id, fresh, key, settings, now),
            done_by=by_user(session.uid),
        )
        return (cookies.set(fresh),)
    if is_stale(entry, now):
        await browsers.store.write(
            lambda tx: tx.administrations.touch(session.id, now), done_by=by_user(session.uid)
        )
    return ()


def page_not_found() -> Refused:
    """Return the refusal of an address that does not exist."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, "this page does not exist", "http.path"))


def with_query(address: str, parameters: Mapping[str, str]) -> str:
    """Return the address with those parameters that are not empty."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{address}?{query}" if query else address
