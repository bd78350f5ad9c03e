"""/account/apps: list the apps connected with an account, show one, revoke access."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import ClassVar
from urllib.parse import quote

from msgspec import Struct

from valetkey.authorization.actions.account.connected_apps import (
    ConnectedApp,
    GrantedScope,
    connected_apps,
    end_app,
    end_apps,
    find_connected,
)
from valetkey.authorization.authentication.browsers import browser_of
from valetkey.authorization.client_authentication import ClientDirectory
from valetkey.authorization.layout.addresses import APPS, END_APP, END_APPS
from valetkey.authorization.layout.contexts import When
from valetkey.authorization.model.api import Api
from valetkey.authorization.model.grant import Grant
from valetkey.authorization.protocol.claims import IDENTITY_SCOPES
from valetkey.authorization.protocol.resource import ScopeText, described
from valetkey.authorization.site.consent import CLAIM_WORDS
from valetkey.authorization.site.page import (
    Act,
    AnyPage,
    Outcome,
    Page,
    SeeOther,
    Show,
    SignedInRequest,
    not_found,
    signed_in,
)
from valetkey.authorization.site.presentation import logo_of
from valetkey.authorization.storage.transaction import Store, Transaction
from valetkey.kernel.moment import Instant, minutes
from valetkey.kernel.text import translatable

_NEWS = minutes(5)
"""How long the page may say that access was just revoked."""


class Used(StrEnum):
    """Whether an app used a permission."""

    YES = "yes"  # at a known time
    NEVER = "never"  # not since the app was connected
    NOT_SINCE = "not_since"  # not since a known time; before that it was not recorded
    UNKNOWN = "unknown"  # use of this permission is not recorded
    TOLD = "told"  # the app receives it at every sign-in


class PermissionLine(Struct, frozen=True):
    """A permission of an app: a sentence that starts with a verb, and when it was last used."""

    sentence: str
    used: Used = Used.UNKNOWN
    #: With YES and NOT_SINCE.
    when: When | None = None
    #: The name of the API to which it belongs; "" for the default API and for the account.
    api: str = ""


class AppLine(Struct, frozen=True):
    """One connected app in the list."""

    client_id: str
    name: str
    domain: str
    permissions: tuple[PermissionLine, ...]
    since: When
    #: None if the app has a consent but no live grant.
    last_used: When | None
    #: Whether it keeps access while the user is signed out.
    outlasts: bool
    logo_url: str = ""


class AppsPage(Struct, frozen=True):
    """The context of apps.html. `ended` is the name of the app whose access was just revoked."""

    template: ClassVar[str] = "account/apps.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    apps: tuple[AppLine, ...]
    ended: str = ""
    #: Whether all apps just lost their access.
    all_ended: bool = False


class EndAppPage(Struct, frozen=True):
    """The context of end_app.html. Its form posts `csrf` and `app`."""

    template: ClassVar[str] = "account/end_app.html"

    action: str
    app: AppLine


class EndAppsPage(Struct, frozen=True):
    """The context of end_apps.html. Its form posts `csrf`."""

    template: ClassVar[str] = "account/end_apps.html"

    action: str
    apps: tuple[AppLine, ...]


class ConnectedAppListPages(Struct, frozen=True):
    """List connected apps; revoke the access of one or of all."""

    store: Store
    directory: ClientDirectory
    scopes: Mapping[str, str]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the pages of this feature."""
        title = translatable("Connected apps")
        return (
            Page(APPS, signed_in, self.show, title=title, nav=True),
            Page(END_APP, signed_in, self.ask_to_end, Act(self.end), title=title),
            Page(END_APPS, signed_in, self.ask_to_end_all, Act(self.end_all), title=title),
        )

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show the connected apps. "Access revoked" is shown only if that happened just now."""
        ended, apps = request.query.get("ended") or "", await self._apps(request)
        return Show(
            AppsPage(
                apps,
                ended=await self._name_of_ended(request, ended, apps),
                all_ended=ended == "all" and not apps,
            )
        )

    async def ask_to_end(self, request: SignedInRequest) -> Outcome:
        """Ask before the access of one app is revoked."""
        uid, now, client_id = request.user.uid, request.now, request.query.get("app") or ""

        def read(tx: Transaction) -> AppLine | None:
            app = find_connected(tx, uid, client_id, now)
            return None if app is None else lines_of(tx, self.scopes, [app], now)[0]

        line = await self.store.scan(read) if is_possible_id(client_id) else None
        if line is None:
            raise not_found("app")
        return Show(EndAppPage(END_APP, line))

    async def end(self, request: SignedInRequest) -> Outcome:
        """Revoke the access of one app: its grants, their tokens and the consent."""
        uid, now, client_id = request.user.uid, request.now, request.form.get("app") or ""
        if not is_possible_id(client_id):
            raise not_found("app")
        ended = await self.store.write(
            # A repeated submit gets the response of the first one.
            lambda tx: (
                end_app(tx, uid, client_id, now)
                or tx.events.has_revoked(uid, client_id, _lately(now))
            ),
            done_by=request.actor,
        )
        if not ended:
            raise not_found("app")
        return SeeOther(f"{APPS}?ended={quote(client_id, safe='')}")

    async def ask_to_end_all(self, request: SignedInRequest) -> Outcome:
        """Ask before the access of all apps is revoked."""
        apps = await self._apps(request)
        if not apps:
            return SeeOther(APPS)
        return Show(EndAppsPage(END_APPS, apps))

    async def end_all(self, request: SignedInRequest) -> Outcome:
        """Revoke the access of all apps."""
        uid, now = request.user.uid, request.now
        await self.store.write(lambda tx: end_apps(tx, uid, now), done_by=request.actor)
        return SeeOther(f"{APPS}?ended=all")

    async def _apps(self, request: SignedInRequest) -> tuple[AppLine, ...]:
        uid, now = request.user.uid, request.now
        return await self.store.scan(
            lambda tx: lines_of(tx, self.scopes, connected_apps(tx, uid, now), now)
        )

    async def _name_of_ended(
        self, request: SignedInRequest, client_id: str, apps: Sequence[AppLine]
    ) -> str:
        if not is_possible_id(client_id) or any(app.client_id == client_id for app in apps):
            return ""
        uid, since = request.user.uid, _lately(request.now)
        if not await self.store.read(lambda tx: tx.events.has_revoked(uid, client_id, since)):
            return ""
        client = await self.directory.find(client_id)
        return "" if client is None else client.name or client.id


def lines_of(
    tx: Transaction, scopes: Mapping[str, str], apps: Sequence[ConnectedApp], now: Instant
) -> tuple[AppLine, ...]:
    """Return the apps as their users see them; `scopes` are the sentences of the default API."""
    apis = tx.apis.of_scopes(permission.scope for app in apps for permission in app.permissions)
    return tuple(_line(apis, scopes, app, now) for app in apps)


def _line(
    apis: Sequence[Api], scopes: Mapping[str, str], app: ConnectedApp, now: Instant
) -> AppLine:
    permissions = {permission.scope: permission for permission in app.permissions}
    lines = [
        _permission(text, app, permissions[text.stored], now)
        for text in described(permissions, apis, scopes)
        if text.sentence
    ]
    shared = [
        PermissionLine(words, Used.TOLD) for n, words in CLAIM_WORDS.items() if n in app.claims
    ]
    own = [line for line in lines if not line.api]
    # Two scopes may have the same sentence: the first is shown.
    first = {
        (line.api, line.sentence): line
        for line in reversed([*own, *shared, *(line for line in lines if line.api)])
    }
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
    text: ScopeText, app: ConnectedApp, permission: GrantedScope, now: Instant
) -> PermissionLine:
    sentence = text.sentence
    used, since = permission.used_at, permission.watched_since
    if permission.scope in IDENTITY_SCOPES:
        return PermissionLine(sentence, Used.TOLD)
    if used is not None:
        return PermissionLine(sentence, Used.YES, When(used, now), api=text.api)
    if since is None or app.last_used_at is None:
        return PermissionLine(sentence, api=text.api)
    if since <= app.since:
        return PermissionLine(sentence, Used.NEVER, api=text.api)
    return PermissionLine(sentence, Used.NOT_SINCE, When(since, now), api=text.api)


def _lately(now: Instant) -> Instant:
    return Instant(now - _NEWS)


def is_possible_id(client_id: str) -> bool:
    """Return whether a client could have this id; PostgreSQL raises an error for other texts."""
    return bool(client_id) and client_id.isascii() and client_id.isprintable()


APP = f"{APPS}/app"
_SHOWN = 20


class GrantLine(Struct, frozen=True):
    """One grant of the user, and the browser in which it was made, "" if unknown."""

    browser: str
    system: str
    since: When
    last_used: When
    ends: When
    #: Whether it stays valid while the user is signed out.
    outlasts: bool
    #: Whether it was made in this browser.
    here: bool = False


class AppPage(Struct, frozen=True):
    """The context of app.html."""

    template: ClassVar[str] = "account/app.html"
    scripts: ClassVar[tuple[str, ...]] = ("times.js",)

    app: AppLine
    description: str
    verified: bool
    #: Whether it registered itself, and no administrator has verified it.
    self_registered: bool
    policy_url: str
    terms_url: str
    connections: tuple[GrantLine, ...]


class ConnectedAppPages(Struct, frozen=True):
    """Show one connected app."""

    store: Store
    scopes: Mapping[str, str]

    def pages(self) -> tuple[AnyPage, ...]:
        """Return the page of this feature."""
        return (Page(APP, signed_in, self.show, title=translatable("Connected app")),)

    async def show(self, request: SignedInRequest) -> Outcome:
        """Show one app. Refused (not found) alike for unknown and for unconnected apps."""
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
) -> GrantLine:
    # Sessions are deleted after their end.
    given_in = grant.sid or grant.session_id
    session = tx.sessions.find_by_id(given_in) if given_in else None
    browser, system = ("", "") if session is None else browser_of(session.user_agent)
    return GrantLine(
        browser=browser,
        system=system,
        since=When(grant.created_at, now),
        last_used=When(grant.last_used_at, now),
        ends=When(grant.expires_at, now),
        outlasts=not grant.session_id,
        here=given_in == here,
    )
