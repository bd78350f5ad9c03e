"""/account/apps/app: everything about one connected app."""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import ConnectedApp, find_connected
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.layout.addresses import APPS
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.site.account.apps.apps import AppLine, is_possible_id, lines_of
from valetkey.authorization.site.page import (
    AnyPage,
    Outcome,
    Page,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant
from valetkey.kernel.words import translatable

APP = f"{APPS}/app"
_SHOWN = 20


class Connection(Struct, frozen=True):
    """One grant of the user, and the browser it was made in, "" where that is not known."""

    browser: str
    system: str
    since: When
    last_used: When
    ends: When
    #: It stays valid while the user is signed out.
    outlasts: bool
    #: It was made in this browser.
    here: bool = False


class AppPage(Struct, frozen=True):
    """The context of app.html."""

    template: ClassVar[str] = "account/apps/app.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppLine
    description: str
    verified: bool
    #: It registered itself, and no administrator has verified it.
    self_registered: bool
    policy_url: str
    terms_url: str
    connections: tuple[Connection, ...]


class App(Struct, frozen=True):
    """Show one connected app."""

    store: Store
    scopes: Mapping[str, str]

    def pages(self) -> tuple[AnyPage, ...]:
        """The page of this feature."""
        return (Page(APP, signed_in, self.show, title=translatable("Connected app")),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """The page. Refused (not found) alike for an app that is not connected and for none."""
        client_id = request.query.get("app") or ""
        if not is_possible_id(client_id):
            raise not_found("app")
        context = await self.store.scan(lambda tx: self._read(tx, request, client_id))
        if context is None:
            raise not_found("app")
        return Show(context)

    def _read(self, tx: Transaction, request: SignedInRequest, client_id: str) -> AppPage | None:
        uid, here, now = request.user.uid, request.session.id, request.now
        app = find_connected(tx, uid, client_id, now)
        if app is None:
            return None
        newest = tx.connected.newest_of(uid, client_id, now, _SHOWN)
        return AppPage(
            app=lines_of(tx, self.scopes, [app], now)[0],
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
    # A session is deleted when it is over.
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
