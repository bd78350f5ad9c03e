"""/account/apps: the apps that a person let use the account, and the end of that."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from valetkey.authorization.deeds.account.connected_apps import (
    ConnectedApp,
    Permission,
    connected_apps,
    end_app,
    end_apps,
    find_connected,
)
from valetkey.authorization.endpoints.account.visit import Visit, nothing_there, posted, visit
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.event.actor import by_user
from valetkey.authorization.pages.account.apps.apps import (
    AppLine,
    AppsPage,
    EndAppPage,
    EndAppsPage,
    PermissionLine,
    Used,
)
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.site.consent.claim_words import CLAIM_WORDS
from valetkey.authorization.site.site import APPS, END_APP, END_APPS, Site, logo_of
from valetkey.kernel.moment import Instant, minutes
from valetkey.web.exchange import Request, Response
from valetkey.web.form import Form, read_query

_NEWS = minutes(5)
"""So long a page may say what has just ended."""


@dataclass(frozen=True, slots=True)
class AppsEndpoint:
    """Connected apps, one and all."""

    site: Site

    async def get(self, request: Request) -> Response:
        """The list. What it says has ended is true, whatever the address says."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        ended = read_query(request.query).get("ended") or ""
        apps = await self._apps(seen, request.at)
        page = AppsPage(
            self._lines(apps, request.at),
            ended=await self._name_of_ended(seen, ended, apps, request.at),
            all_ended=ended == "all" and not apps,
        )
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def ask(self, request: Request) -> Response:
        """The question before the access of one app ends."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        app = await self._find(seen, read_query(request.query), request.at)
        page = EndAppPage(END_APP, seen.csrf, line_of(self.site, app, request.at))
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def end(self, request: Request) -> Response:
        """End it: its grants, their tokens and the consent."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        seen, form = found
        uid, client_id, now = seen.signed_in.user.uid, form.get("app") or "", request.at
        if not possible(client_id):
            raise nothing_there("app")
        ended = await self.site.store.write(
            # Whoever presses twice sees what the first press did.
            lambda tx: (
                end_app(tx, uid, client_id, now) or tx.events.withdrew(uid, client_id, _lately(now))
            ),
            done_by=by_user(uid),
        )
        if not ended:
            raise nothing_there("app")
        return self.site.goes_to(f"{APPS}?ended={quote(client_id, safe='')}")

    async def ask_all(self, request: Request) -> Response:
        """The question before the access of all apps ends."""
        seen = await visit(self.site, request)
        if isinstance(seen, Response):
            return seen
        apps = await self._apps(seen, request.at)
        if not apps:
            return self.site.goes_to(APPS)
        page = EndAppsPage(END_APPS, seen.csrf, self._lines(apps, request.at))
        return self.site.page(request, page, user=seen.signed_in.user, headers=seen.headers)

    async def end_all(self, request: Request) -> Response:
        """End it."""
        found = await posted(self.site, request)
        if isinstance(found, Response):
            return found
        uid, now = found[0].signed_in.user.uid, request.at
        await self.site.store.write(lambda tx: end_apps(tx, uid, now), done_by=by_user(uid))
        return self.site.goes_to(f"{APPS}?ended=all")

    async def _apps(self, seen: Visit, now: Instant) -> Sequence[ConnectedApp]:
        uid = seen.signed_in.user.uid
        return await self.site.store.scan(lambda tx: connected_apps(tx, uid, now))

    async def _find(self, seen: Visit, query: Form, now: Instant) -> ConnectedApp:
        uid, client_id = seen.signed_in.user.uid, query.get("app") or ""
        app = None
        if possible(client_id):
            app = await self.site.store.scan(lambda tx: find_connected(tx, uid, client_id, now))
        if app is None:
            raise nothing_there("app")
        return app

    async def _name_of_ended(
        self, seen: Visit, client_id: str, apps: Sequence[ConnectedApp], now: Instant
    ) -> str:
        if not possible(client_id) or any(app.client.id == client_id for app in apps):
            return ""
        uid, since = seen.signed_in.user.uid, _lately(now)
        if not await self.site.store.read(lambda tx: tx.events.withdrew(uid, client_id, since)):
            return ""
        client = await self.site.directory.find(client_id)
        return "" if client is None else client.name or client.id

    def _lines(self, apps: Sequence[ConnectedApp], now: Instant) -> tuple[AppLine, ...]:
        return tuple(line_of(self.site, app, now) for app in apps)


def line_of(site: Site, app: ConnectedApp, now: Instant) -> AppLine:
    """The app as people see it."""
    lines = [_permission(site, app, each, now) for each in app.permissions]
    told = [PermissionLine(words, Used.TOLD) for n, words in CLAIM_WORDS.items() if n in app.claims]
    # Two scopes may be told in one sentence: the first of them speaks.
    first = {line.sentence: line for line in reversed([*filter(None, lines), *told])}
    return AppLine(
        client_id=app.client.id,
        name=app.name,
        domain=app.client.domain,
        permissions=tuple(reversed(first.values())),
        since=When(app.since, now),
        last_used=None if app.last_used_at is None else When(app.last_used_at, now),
        outlasts=app.outlasts,
        logo_url=logo_of(app.client),
    )


def _permission(
    site: Site, app: ConnectedApp, permission: Permission, now: Instant
) -> PermissionLine | None:
    sentence = site.scopes.get(permission.scope)
    if sentence is None:
        return None
    used, since = permission.used_at, permission.watched_since
    if permission.scope in IDENTITY_SCOPES:
        return PermissionLine(sentence, Used.TOLD)
    if used is not None:
        return PermissionLine(sentence, Used.YES, When(used, now))
    if since is None or app.last_used_at is None:
        return PermissionLine(sentence)
    if since <= app.since:
        return PermissionLine(sentence, Used.NEVER)
    return PermissionLine(sentence, Used.NOT_SINCE, When(since, now))


def _lately(now: Instant) -> Instant:
    return Instant(now - _NEWS)


def possible(client_id: str) -> bool:
    """Whether any client could be called so."""
    # Nobody is called by what no database stores; asking would be a fault of ours.
    return bool(client_id) and client_id.isascii() and client_id.isprintable()
