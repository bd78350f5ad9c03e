"""/account/data: everything that is known of who is signed in, as one file."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.export import Origin, export
from valetkey.authorization.endpoints.account.addresses import DATA
from valetkey.authorization.endpoints.account.step_up import stepped_up
from valetkey.authorization.endpoints.account.visit import posted, visit
from valetkey.authorization.endpoints.visitor.site import SIGN_IN, Site
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.person.data import DataPage
from valetkey.authorization.sign_in.session import find_still_signed_in
from valetkey.authorization.storage.transaction import Transaction
from valetkey.web.exchange import Request, Response

_FILE = (
    ("content-type", "application/json; charset=utf-8"),
    ("content-disposition", 'attachment; filename="account.json"'),
    ("cache-control", "no-store"),
)


@dataclass(frozen=True, slots=True)
class DataEndpoint:
    """The file, and the page that offers it."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        session = seen.signed_in.session
        # Who has only just signed in was asked for nothing on the way here.
        proved = (
            session.proved_at > session.created_at
            and await stepped_up(self.site, request, seen) is None
        )
        page = DataPage(DATA, seen.csrf, self.site.policy.audience, proved=proved)
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """The file, for who proved a moment ago who they are."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen = found[0]
        asks = await stepped_up(self.site, request, seen)
        if asks is not None:
            return asks
        site, now, session = self.site, request.at, seen.signed_in.session.id
        origin = Origin(site.brand.name, site.issuer, site.policy.audience)

        def work(tx: Transaction) -> bytes | None:
            asking = find_still_signed_in(tx, session, site.sessions, now)
            return None if asking is None else export(tx, asking.user, origin, now)

        file = await site.store.write(work, done_by=by_user(seen.signed_in.user.uid))
        return site.goes_to(SIGN_IN) if file is None else Response(200, file, _FILE)
