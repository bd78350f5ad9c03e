"""/developer: the apps in whose teams a person is."""

from collections.abc import Iterator
from dataclasses import dataclass

from valetkey.authorization.deeds.developer.ownership import OwnApp, own_apps
from valetkey.authorization.deeds.developer.portal import Portal
from valetkey.authorization.deeds.developer.secrets import seen_in_url
from valetkey.authorization.deeds.developer.wish import kind_of
from valetkey.authorization.endpoints.account.visit import visit
from valetkey.authorization.endpoints.developer.invitations import INVITATIONS
from valetkey.authorization.endpoints.developer.member import head_of, own_app
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.account.user import Uid
from valetkey.authorization.pages.developer.apps import OfferLine, OwnAppLine, OwnAppsPage
from valetkey.authorization.pages.developer.overview import OverviewPage
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query


@dataclass(frozen=True, slots=True)
class AppsEndpoint:
    """The list, and one app at a glance."""

    site: Site
    portal: Portal

    async def get(self, request: Request) -> Response:
        """The list."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        user = seen.signed_in.user
        apps, barrier, offers = await self.site.store.scan(
            lambda tx: (
                own_apps(tx, user.uid),
                self.portal.barrier(tx, user),
                tuple(_offers(tx, user.uid, request.at)),
            )
        )
        page = OwnAppsPage(
            tuple(_line(app) for app in apps),
            may_register=barrier is None,
            offers=offers,
            deleted="deleted" in read_query(request.query),
        )
        return self.site.page(request, page, user=user, headers=seen.headers)

    async def overview(self, request: Request) -> Response:
        """One app. Refused with `not_found` for all but its team."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await own_app(self.site, request, seen)
        client, now = app.client, request.at
        live, sighting = await self.site.store.read(
            lambda tx: (tx.secrets.live(client.id, now), tx.clients.query_sighting(client.id))
        )
        scopes = self.site.scopes
        page = OverviewPage(
            app=head_of(app),
            issuer=self.site.issuer,
            kind=kind_of(client).value,
            profile=client.profile_name.value,
            proof=client.authentication_method.value,
            redirect_uris=client.redirect_uris,
            registered=When(client.created_at, now),
            description=client.description,
            verified=client.verified_at is not None,
            sentences=tuple(scopes[name] for name in client.scope if name in scopes),
            secret_seen=seen_in_url(live, sighting) is not None,
            without_secret=client.has_secret and not live,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)


def _offers(tx: Transaction, uid: Uid, now: Instant) -> Iterator[OfferLine]:
    for each in tx.team_invitations.waiting_for(uid, now):
        client, by = tx.clients.find(each.client_id), tx.users.find(each.invited_by)
        if client is not None and by is not None:
            place = f"{INVITATIONS}{each.id}"
            yield OfferLine(place, client.name or client.id, by.name or by.username)


def _line(app: OwnApp) -> OwnAppLine:
    return OwnAppLine(
        head_of(app),
        app.client.domain,
        app.client.profile_name.value,
        verified=app.client.verified_at is not None,
    )
