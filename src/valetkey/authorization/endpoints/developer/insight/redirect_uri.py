"""/developer/apps/{id}/failures/{reference}/add: the redirect URI that a request wanted."""

from dataclasses import dataclass

from valetkey.authorization.deeds.clients import Faults, Registrar
from valetkey.authorization.deeds.developer.failures import (
    add_redirect_uri,
    find_failure,
    missing_redirect_uri,
    plain_reference,
)
from valetkey.authorization.deeds.developer.ownership import OwnApp, find_own
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.model.register.client import Client
from valetkey.authorization.pages.developer.insight.failures.pages import AddRedirectUriPage
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.refusal import ErrorCode, Refusal, Refused
from valetkey.kernel.url import origin
from valetkey.web.exchange import Request, Response


@dataclass(frozen=True, slots=True)
class AddRedirectUri:
    """The question, and the deed."""

    site: Site
    registrar: Registrar

    async def get(self, request: Request) -> Response:
        """Ask. Refused with `not_found` where no redirect URI is missing."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app, uri = await self._find(request, seen)
        head, place = head_of(app), origin(uri)
        reference = plain_reference(request.arguments["reference"])
        registered = app.client.redirect_uris
        page = AddRedirectUriPage(
            head,
            f"{head.at('failures')}/{reference}/add",
            seen.csrf,
            reference,
            uri,
            place.partition("://")[2] or place,
            registered,
            strange=place not in {origin(each) for each in registered},
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def post(self, request: Request) -> Response:
        """Add it. Refused with `conflict` for an address that no app may register."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        app, uri = await self._find(request, found[0])
        uid, now = found[0].signed_in.user.uid, request.at

        def work(tx: Transaction) -> Client | Faults:
            client = tx.clients.find_to_change(app.client.id)
            if client is None or find_own(tx, client.id, uid) is None:
                raise nothing_there("app")
            return add_redirect_uri(tx, self.registrar, client, uri, now)

        done = await self.site.store.write(work, done_by=by_user(uid))
        if isinstance(done, tuple):
            raise Refused(
                Refusal(
                    ErrorCode.CONFLICT,
                    "this address cannot be a redirect URI; the settings of the app say why",
                    "developer.redirect_uri",
                )
            )
        return self.site.goes_to(f"{head_of(app).at('settings')}?saved=1")

    async def _find(self, request: Request, seen: Visit) -> tuple[OwnApp, str]:
        app = await own_app(self.site, request, seen)
        reference, client_id = plain_reference(request.arguments["reference"]), app.client.id
        decision = None
        if reference:
            decision = await self.site.store.read(lambda tx: find_failure(tx, client_id, reference))
        uri = "" if decision is None else missing_redirect_uri(decision)
        if not uri:
            raise nothing_there("refusal")
        return app, uri
