"""A visit to the pages of security: somebody who proved just now who they are."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import Visit, posted, visit
from valetkey.authorization.endpoints.visitor.site import Site
from valetkey.authorization.model.account.user import User
from valetkey.authorization.sign_in.session import (
    NewSession,
    find_still_signed_in,
    prove,
)
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form


async def secured(site: Site, request: Request, to: str = "") -> Visit | Response:
    """The visit, or the way to where one signs in or proves again who one is."""
    seen = await visit(site, request)
    if isinstance(seen, Response):
        return seen
    return await stepped_up(site, request, seen, to) or seen


async def secured_form(
    site: Site, request: Request, opaque: Collection[str] = (), to: str = ""
) -> tuple[Visit, Form] | Response:
    """The same for a form; Refused (forbidden) for one that is not ours."""
    found = await posted(site, request, opaque)
    if isinstance(found, Response):
        return found
    return await stepped_up(site, request, found[0], to) or found


def still_there(tx: Transaction, site: Site, seen: Visit, now: Instant) -> User:
    """Who asked, if they are still signed in where it is decided; else Refused (forbidden)."""
    found = find_still_signed_in(tx, seen.signed_in.session.id, site.sessions, now)
    if found is None or found.user.uid != seen.signed_in.user.uid:
        raise Refused(
            Refusal(
                ErrorCode.FORBIDDEN,
                "you were signed out meanwhile; sign in and try again",
                "account.signed_out",
            )
        )
    return found.user


@dataclass(frozen=True, slots=True)
class ProofOnTheWay:
    """Adding a factor shows it: whoever does so need not show it again at once."""

    site: Site
    new: NewSession

    def note(
        self, tx: Transaction, request: Request, seen: Visit, methods: tuple[str, ...]
    ) -> bool:
        """Note it; the session goes on under another cookie. False if another tab was faster."""
        site, now = self.site, request.at
        asking = find_still_signed_in(tx, seen.signed_in.session.id, site.sessions, now)
        if asking is None:
            return False
        key, cookie = site.keyring.fingerprint_key, site.cookies.session(request)
        return prove(tx, cookie, self.new, asking, key, now, methods=methods)

    def shown(self, seen: Visit) -> Visit:
        """The visit with the headers that bring the other cookie."""
        cookies = self.site.cookies.begin(self.new.cookie, seen.signed_in.session.id)
        return replace(seen, headers=(*seen.headers, *cookies))


def proof_on_the_way(site: Site, request: Request) -> ProofOnTheWay:
    """For one request."""
    agent = request.headers.get("user-agent") or ""
    return ProofOnTheWay(site, NewSession.fresh(agent, site.random))
