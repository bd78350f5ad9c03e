"""/account/apps/app: everything about one connected app."""

from dataclasses import dataclass

from valetkey.authorization.deeds.account.connected_apps import ConnectedApp, find_connected
from valetkey.authorization.endpoints.account.apps import line_of, possible
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, visit
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.pages.account.apps.apps import AppPage, Connection
from valetkey.authorization.sign_in.user_agent import browser_of
from valetkey.authorization.site.site import Site
from valetkey.authorization.storage.transaction import Transaction
from valetkey.kernel.moment import Instant
from valetkey.web.exchange import Request, Response
from valetkey.web.form import read_query

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class AppEndpoint:
    """One app, for who connected it."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The page; of what one has not connected, the same is said as of what does not exist."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        client_id = read_query(request.query).get("app") or ""
        if not possible(client_id):
            raise nothing_there("app")
        page = await self.site.store.scan(lambda tx: self._read(tx, seen, client_id, request.at))
        if page is None:
            raise nothing_there("app")
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    def _read(self, tx: Transaction, seen: Visit, client_id: str, now: Instant) -> AppPage | None:
        app = find_connected(tx, seen.signed_in.user.uid, client_id, now)
        if app is None:
            return None
        newest = tx.connected.newest_of(seen.signed_in.user.uid, client_id, now, _SHOWN)
        here = seen.signed_in.session.id
        return AppPage(
            app=line_of(self.site, app, now),
            description=app.client.description,
            verified=app.client.verified_at is not None,
            self_registered=app.client.self_registered,
            policy_url=app.client.policy_uri,
            terms_url=app.client.tos_uri,
            connections=tuple(_connection(tx, app, grant, here, now) for grant in newest),
        )


def _connection(
    tx: Transaction, app: ConnectedApp, grant: Grant, here: str, now: Instant
) -> Connection:
    # What a session was is forgotten when its life is over.
    given_in = grant.sid or grant.session_id
    session = tx.sessions.find_by_id(given_in) if given_in else None
    browser, system = ("", "") if session is None else browser_of(session.user_agent)
    return Connection(
        browser=browser,
        system=system,
        since=When(grant.created_at, now),
        last_used=When(grant.last_used_at, now),
        ends=When(grant.expires_at, now),
        outlasts=not grant.session_id,
        here=given_in == here,
    )
