"""A visit to administration: by whom, with which role, and proved how lately (security 22)."""

from collections.abc import Collection
from dataclasses import replace

from valetkey.authorization.deeds.admin.permissions import Permission, Person, powers_of
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import PURPOSE, Visit, visit
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.sign_in.administration import (
    AdministrationCookie,
    enter,
    find_entered,
    fresh_entry,
    is_stale,
)
from valetkey.authorization.site.site import Site
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_form

ADMIN = "/admin"
"""The door: here alone strangers are asked to sign in."""

_READS = frozenset({"GET", "HEAD"})


async def administered(
    site: Site, request: Request, permission: Permission = Permission.READ
) -> Visit | Response:
    """The visit of somebody whose role allows this, or the way to prove who they are.

    Raises Refused (not found) for everybody else, in the words of an address that there is not.
    What it says of the role is for showing pages: deeds ask again, in the transaction that acts.
    """
    seen = await visit(site, request)
    if isinstance(seen, Response):
        if request.path != ADMIN and not site.cookies.session(request):
            raise nothing_here()
        return seen
    user, session = seen.signed_in.user, seen.signed_in.session
    if user.role is None or not powers_of(user.role).allow(permission):
        raise nothing_here()
    cookies = AdministrationCookie(site.cookies.secure)
    key, settings, now = site.keyring.fingerprint_key, site.administration, request.at
    cookie = cookies.read(request)
    entry = await site.store.read(
        lambda tx: find_entered(tx, session.id, cookie, key, settings, now)
    )
    if entry is None:
        to = "" if request.method in _READS else ADMIN
        if (asked := await stepped_up(site, request, seen, to)) is not None:
            return asked
        fresh = fresh_entry(site.random)
        await site.store.write(
            lambda tx: enter(tx, session.id, fresh, key, settings, now),
            done_by=by_user(session.uid),
        )
        return replace(seen, headers=(*seen.headers, cookies.set(fresh)))
    if is_stale(entry, now):
        await site.store.write(
            lambda tx: tx.administrations.touch(session.id, now), done_by=by_user(session.uid)
        )
    return seen


async def administered_form(
    site: Site,
    request: Request,
    permission: Permission,
    opaque: Collection[str] = (),
    multiple: Collection[str] = (),
) -> tuple[Visit, Form] | Response:
    """The visit and what its form says; Refused (forbidden) for a form that is not ours."""
    seen = await administered(site, request, permission)
    if isinstance(seen, Response):
        return seen
    site.check_origin(request)
    form = read_form(request.body, opaque=opaque, multiple=multiple)
    browser = site.cookies.browser(request)
    site.check_form(request, form, browser, PURPOSE, seen.signed_in.session.id)
    return seen, form


def actor_of(seen: Visit) -> Person:
    """Who acts, for the deeds."""
    return Person(seen.signed_in.user.uid, seen.signed_in.session.id)


def nothing_here() -> Refused:
    """The refusal of an address that there is not."""
    return Refused(Refusal(ErrorCode.NOT_FOUND, "nothing is at this address", "http.path"))
